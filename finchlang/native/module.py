"""An LLVM module as text: what its functions share."""

from __future__ import annotations

#: Gives larger memory to the buffer at %slot: at least doubled, so that appending is linear in
#: all. Memory that came from outside is left as it was and copied. Null if there is none.
GROW = """
define internal noalias ptr @grow(ptr %slot, i64 %size, i64 %width) cold noinline nounwind {
  %room = getelementptr i64, ptr %slot, i64 1
  %mine = getelementptr i64, ptr %slot, i64 2
  %old = load ptr, ptr %slot
  %capacity = load i64, ptr %room
  %owned = load i64, ptr %mine
  %sane = icmp ult i64 %size, 72057594037927936
  br i1 %sane, label %choose, label %none
choose:
  %double = shl i64 %capacity, 1
  %larger = call i64 @llvm.umax.i64(i64 %double, i64 %size)
  %wanted = call i64 @llvm.umax.i64(i64 %larger, i64 16)
  %bytes = mul i64 %wanted, %width
  %is_owned = icmp ne i64 %owned, 0
  br i1 %is_owned, label %extend, label %fresh
extend:
  %extended = call ptr @PyMem_RawRealloc(ptr %old, i64 %bytes)
  br label %check
fresh:
  %new = call ptr @PyMem_RawMalloc(i64 %bytes)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %none, label %copy
copy:
  %used = mul i64 %capacity, %width
  call void @llvm.memcpy.p0.p0.i64(ptr %new, ptr %old, i64 %used, i1 false)
  br label %check
check:
  %memory = phi ptr [ %extended, %extend ], [ %new, %copy ]
  %lost = icmp eq ptr %memory, null
  br i1 %lost, label %none, label %keep
keep:
  store ptr %memory, ptr %slot
  store i64 %wanted, ptr %room
  store i64 1, ptr %mine
  ret ptr %memory
none:
  ret ptr null
}"""

#: The names of the metadata that do not depend on the residual: first weights (cold, hot).
UNLIKELY, INVARIANT, TBAA_ROOT, TBAA_SLOTS = "!0", "!1", "!2", "!4"
METADATA = [
    '!0 = !{!"branch_weights", i32 1, i32 4000}',
    "!1 = !{}",
    '!2 = !{!"finchlang"}',
    '!3 = !{!"slots", !2, i64 0}',
    "!4 = !{!3, !3, i64 0}",
]


class Module:
    """What the functions of one module share: declarations, library functions and metadata."""

    def __init__(self) -> None:
        self.functions: list[str] = []
        self.declarations: dict[str, str] = {}
        self.metadata = list(METADATA)

    def declare(self, result: str, name: str, arguments: str, attributes: str = "nounwind") -> None:
        if name not in self.declarations:
            self.declarations[name] = f"declare {result} @{name}({arguments}) {attributes}"

    def use_grow(self) -> None:
        if "grow" not in self.declarations:
            self.declarations["grow"] = GROW
            self.declare("i64", "llvm.umax.i64", "i64, i64")
            self.declare("void", "llvm.memcpy.p0.p0.i64", "ptr, ptr, i64, i1")
            self.declare("ptr", "PyMem_RawMalloc", "i64")
            self.declare("ptr", "PyMem_RawRealloc", "ptr, i64")

    def tbaa(self, name: str) -> str:
        """The access tag of a new type of memory, apart from every other."""
        number = len(self.metadata)
        self.metadata.append(f'!{number} = !{{!"{name}", {TBAA_ROOT}, i64 0}}')
        self.metadata.append(f"!{number + 1} = !{{!{number}, !{number}, i64 0}}")
        return f", !tbaa !{number + 1}"

    def no_interleaving(self) -> str:
        """A hint for a loop: one vector at a time. Rows of sparse tensors are short, and several
        gathers at a time lose more in front of and behind the loop than they win in it."""
        number = len(self.metadata)
        self.metadata.append(f"!{number} = distinct !{{!{number}, !{number + 1}}}")
        self.metadata.append(f'!{number + 1} = !{{!"llvm.loop.interleave.count", i32 1}}')
        return f", !llvm.loop !{number}"

    def text(self) -> str:
        return "\n".join([*self.declarations.values(), *self.functions, *self.metadata, ""])
