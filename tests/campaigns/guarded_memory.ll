; A piece of the arena is a page that is not mapped, and pages with the array at their end or at their
; beginning; the next piece is not mapped first. A table has two words for each page: of the first one
; with an array on it, the bytes asked for and those of the pages.

@next = global i64 0
@first = global i64 0
@stop = global i64 0
@side = global i64 0
@table = global i64 0
@old.context = global ptr null
@old.malloc = global ptr null
@old.realloc = global ptr null
@old.free = global ptr null

declare i32 @mprotect(i64, i64, i32)
declare i32 @madvise(i64, i64, i32)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
declare {i64, i1} @llvm.umul.with.overflow.i64(i64, i64)

define ptr @take(i64 %given) {
  %size = call i64 @llvm.umax.i64(i64 %given, i64 1)
  %too.large = icmp ugt i64 %size, 1099511627776
  br i1 %too.large, label %none, label %some
some:
  %up = add i64 %size, 4095
  %data = and i64 %up, -4096
  %whole = add i64 %data, 4096
  %at = atomicrmw add ptr @next, i64 %whole seq_cst
  %end = add i64 %at, %whole
  %stop = load i64, ptr @stop
  %is.full = icmp ugt i64 %end, %stop
  br i1 %is.full, label %none, label %open
open:
  %begin = add i64 %at, 4096
  %failed = call i32 @mprotect(i64 %begin, i64 %data, i32 3)
  %is.open = icmp eq i32 %failed, 0
  br i1 %is.open, label %done, label %none
done:
  %page = inttoptr i64 %begin to ptr
  %head = call ptr @head(ptr %page)
  store i64 %given, ptr %head
  %second = getelementptr i64, ptr %head, i64 1
  store i64 %data, ptr %second
  %gap = sub i64 %data, %size
  %side = load i64, ptr @side
  %is.after = icmp eq i64 %side, 0
  %shift = select i1 %is.after, i64 %gap, i64 0
  %place = add i64 %begin, %shift
  %result = inttoptr i64 %place to ptr
  ret ptr %result
none:
  %context = load ptr, ptr @old.context
  %malloc = load ptr, ptr @old.malloc
  %unguarded = call ptr %malloc(ptr %context, i64 %given)
  ret ptr %unguarded
}

define ptr @head(ptr %p) {
  %place = ptrtoint ptr %p to i64
  %page = and i64 %place, -4096
  %first = load i64, ptr @first
  %far = sub i64 %page, %first
  %offset = lshr i64 %far, 8
  %table = load i64, ptr @table
  %at = add i64 %table, %offset
  %head = inttoptr i64 %at to ptr
  ret ptr %head
}

define i1 @is_ours(ptr %p) {
  %place = ptrtoint ptr %p to i64
  %first = load i64, ptr @first
  %stop = load i64, ptr @stop
  %low = icmp uge i64 %place, %first
  %high = icmp ult i64 %place, %stop
  %both = and i1 %low, %high
  ret i1 %both
}

define void @give(ptr %p) {
  %head = call ptr @head(ptr %p)
  %second = getelementptr i64, ptr %head, i64 1
  %data = load i64, ptr %second
  %place = ptrtoint ptr %p to i64
  %page = and i64 %place, -4096
  %dropped = call i32 @madvise(i64 %page, i64 %data, i32 4)
  %closed = call i32 @mprotect(i64 %page, i64 %data, i32 0)
  ret void
}

define ptr @move(ptr %p, i64 %size) {
  %new = call ptr @take(i64 %size)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %end, label %copy
copy:
  %head = call ptr @head(ptr %p)
  %old = load i64, ptr %head
  %both = call i64 @llvm.umin.i64(i64 %old, i64 %size)
  call void @llvm.memcpy.p0.p0.i64(ptr %new, ptr %p, i64 %both, i1 false)
  call void @give(ptr %p)
  br label %end
end:
  ret ptr %new
}

define ptr @data_malloc(ptr %context, i64 %size) {
  %p = call ptr @take(i64 %size)
  ret ptr %p
}

define ptr @data_calloc(ptr %context, i64 %count, i64 %each) {
  %pair = call {i64, i1} @llvm.umul.with.overflow.i64(i64 %count, i64 %each)
  %size = extractvalue {i64, i1} %pair, 0
  %is.over = extractvalue {i64, i1} %pair, 1
  %asked = select i1 %is.over, i64 -1, i64 %size
  %p = call ptr @take(i64 %asked)
  ret ptr %p
}

define ptr @data_realloc(ptr %context, ptr %p, i64 %size) {
  %is.new = icmp eq ptr %p, null
  br i1 %is.new, label %fresh, label %known
fresh:
  %q = call ptr @take(i64 %size)
  ret ptr %q
known:
  %is.ours = call i1 @is_ours(ptr %p)
  br i1 %is.ours, label %ours, label %theirs
ours:
  %r = call ptr @move(ptr %p, i64 %size)
  ret ptr %r
theirs:
  %their.context = load ptr, ptr @old.context
  %realloc = load ptr, ptr @old.realloc
  %s = call ptr %realloc(ptr %their.context, ptr %p, i64 %size)
  ret ptr %s
}

define void @data_free(ptr %context, ptr %p, i64 %size) {
  call void @raw_free(ptr %context, ptr %p)
  ret void
}

define i64 @rounded(i64 %size) {
  %up = add i64 %size, 7
  %down = and i64 %up, -8
  %least = call i64 @llvm.umax.i64(i64 %down, i64 %size)
  ret i64 %least
}

define ptr @raw_malloc(ptr %context, i64 %size) {
  %whole = call i64 @rounded(i64 %size)
  %p = call ptr @take(i64 %whole)
  ret ptr %p
}

define ptr @raw_calloc(ptr %context, i64 %count, i64 %each) {
  %whole = call i64 @rounded(i64 %each)
  %p = call ptr @data_calloc(ptr null, i64 %count, i64 %whole)
  ret ptr %p
}

define ptr @raw_realloc(ptr %context, ptr %p, i64 %size) {
  %whole = call i64 @rounded(i64 %size)
  %q = call ptr @data_realloc(ptr null, ptr %p, i64 %whole)
  ret ptr %q
}

define void @raw_free(ptr %context, ptr %p) {
  %is.none = icmp eq ptr %p, null
  br i1 %is.none, label %end, label %some
some:
  %is.ours = call i1 @is_ours(ptr %p)
  br i1 %is.ours, label %mine, label %theirs
mine:
  call void @give(ptr %p)
  br label %end
theirs:
  %their.context = load ptr, ptr @old.context
  %free = load ptr, ptr @old.free
  call void %free(ptr %their.context, ptr %p)
  br label %end
end:
  ret void
}
