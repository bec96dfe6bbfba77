/* Results that are written in any order, through one workspace with each policy (Workspaces'24 section 5)
   into CSC, and into a dense result. Entries are in one array that grows, so that nothing is merged, and
   are sorted when all are there; memory is kept from call to call. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int64_t i64;
typedef int32_t i32;
typedef uint64_t u64;

/* COORD appends, and sorts by digits of the places; VECTOR does so by the library's comparing sort. HASH
   finds the entry of a place by a table, BUCKET by the list of the entries of its row. */
enum { COORD, VECTOR, HASH, BUCKET, DENSE };

typedef struct { u64 place; double value; } entry;
typedef struct { u64 place; i64 at; } slot;

static entry *all, *scratch;
static i64 taken, room;
static slot *table;
static i64 slots;
static i64 *head, *next;

static void begin(int kind, i64 rows)
{
    taken = 0;
    if (kind == BUCKET) {
        head = realloc(head, rows * sizeof *head);
        memset(head, -1, rows * sizeof *head);
    }
    if (kind == HASH) {
        if (!slots)
            table = malloc((slots = 1024) * sizeof *table);
        memset(table, -1, slots * sizeof *table);
    }
}

static inline i64 find(u64 place)
{
    i64 s = (place * 0x9E3779B97F4A7C15u) >> (64 - __builtin_ctzll(slots));
    while (table[s].place != place && table[s].at >= 0)
        s = (s + 1) & (slots - 1);
    return s;
}

static __attribute__((noinline)) void grow(void)
{
    room = room ? 2 * room : 512;
    all = realloc(all, room * sizeof *all);
    scratch = realloc(scratch, room * sizeof *scratch);
    next = realloc(next, room * sizeof *next);
}

static __attribute__((noinline)) void rehash(void)
{
    table = realloc(table, (slots *= 2) * sizeof *table);
    memset(table, -1, slots * sizeof *table);
    for (i64 e = 0; e < taken; e++)
        table[find(all[e].place)] = (slot){all[e].place, e};
}

static inline __attribute__((always_inline)) void insert(
    const int kind, i64 rows, i64 i, i64 j, double value, double *out)
{
    const u64 place = j * rows + i;
    if (kind == DENSE) {
        out[place] += value;
        return;
    }
    if (kind == BUCKET) {
        i64 e = head[i];
        while (e >= 0 && all[e].place != place)
            e = next[e];
        if (e >= 0) {
            all[e].value += value;
            return;
        }
    }
    if (taken == room)
        grow();
    if (kind == BUCKET) {
        next[taken] = head[i];
        head[i] = taken;
    }
    if (kind == HASH) {
        if (2 * taken >= slots)
            rehash();
        const i64 s = find(place);
        if (table[s].at >= 0) {
            all[table[s].at].value += value;
            return;
        }
        table[s] = (slot){place, taken};
    }
    all[taken++] = (entry){place, value};
}

static int compare(const void *a, const void *b)
{
    const u64 x = ((const entry *)a)->place, y = ((const entry *)b)->place;
    return (x > y) - (x < y);
}

enum { DIGIT = 11 };

static void sort_by_digits(u64 places)
{
    for (int low = 0; low < 64 && (places - 1) >> low; low += DIGIT) {
        i64 start[1 << DIGIT] = {0}, sum = 0;
        for (i64 e = 0; e < taken; e++)
            start[all[e].place >> low & ((1 << DIGIT) - 1)]++;
        for (int d = 0; d < 1 << DIGIT; d++) {
            const i64 count = start[d];
            start[d] = sum;
            sum += count;
        }
        for (i64 e = 0; e < taken; e++)
            scratch[start[all[e].place >> low & ((1 << DIGIT) - 1)]++] = all[e];
        entry *const other = all;
        all = scratch;
        scratch = other;
    }
}

/* Sort, combine what is of one place, and compress; gives how many there are. */
static i64 finish(int kind, i64 rows, i64 columns, i32 *restrict ptr, i32 *restrict idx,
                  double *restrict val)
{
    if (kind == DENSE)
        return 0;
    if (kind == VECTOR)
        qsort(all, taken, sizeof *all, compare);
    else
        sort_by_digits(rows * columns);
    i64 n = 0, column = 0;
    u64 first = 0, last = -1;
    ptr[0] = 0;
    for (i64 e = 0; e < taken; e++) {
        const u64 place = all[e].place;
        if (place == last) {
            val[n - 1] += all[e].value;
            continue;
        }
        for (; place >= first + rows; first += rows)
            ptr[++column] = n;
        idx[n] = place - first;
        val[n++] = all[e].value;
        last = place;
    }
    while (column < columns)
        ptr[++column] = n;
    return n;
}

static inline __attribute__((always_inline)) i64 mttkrp_by(
    const int kind, i64 size, i64 rows, i64 rank, const i32 *fptr, const i32 *fidx, const i32 *ptr,
    const i32 *idx, const double *val, const i32 *Fptr, const i32 *Fidx, const double *Fval,
    const i32 *Gptr, const i32 *Gidx, const double *Gval, i32 *cptr, i32 *cidx, double *out)
{
    begin(kind, rows);
    if (kind == DENSE)
        memset(out, 0, rows * rank * sizeof *out);
    for (i64 k = 0; k < size; k++)
        for (i32 p = fptr[k]; p < fptr[k + 1]; p++) {
            const i64 l = fidx[p];
            for (i32 q = ptr[p]; q < ptr[p + 1]; q++) {
                i32 a = Fptr[l], b = Gptr[k];
                const i32 a_end = Fptr[l + 1], b_end = Gptr[k + 1];
                while (a < a_end && b < b_end) {
                    const i32 ja = Fidx[a], jb = Gidx[b];
                    if (ja == jb)
                        insert(kind, rows, idx[q], ja, val[q] * Fval[a] * Gval[b], out);
                    a += ja <= jb;
                    b += jb <= ja;
                }
            }
        }
    return finish(kind, rows, rank, cptr, cidx, out);
}

/* C[i, j] = sum over k and l of X[i, l, k] F[j, l] G[j, k], all but C's kind of it compressed. */
i64 mttkrp(i64 kind, i64 size, i64 rows, i64 rank, const i32 *fptr, const i32 *fidx, const i32 *ptr,
           const i32 *idx, const double *val, const i32 *Fptr, const i32 *Fidx, const double *Fval,
           const i32 *Gptr, const i32 *Gidx, const double *Gval, i32 *cptr, i32 *cidx, double *out)
{
#define BY(K)                                                                                  \
    case K:                                                                                    \
        return mttkrp_by(K, size, rows, rank, fptr, fidx, ptr, idx, val, Fptr, Fidx, Fval,     \
                         Gptr, Gidx, Gval, cptr, cidx, out);
    switch (kind) { BY(COORD) BY(VECTOR) BY(HASH) BY(BUCKET) BY(DENSE) }
#undef BY
    return -1;
}

static inline __attribute__((always_inline)) i64 outer_by(
    const int kind, i64 inner, i64 rows, i64 columns, const i32 *Aptr, const i32 *Aidx,
    const double *Aval, const i32 *Bptr, const i32 *Bidx, const double *Bval, i32 *cptr, i32 *cidx,
    double *out)
{
    begin(kind, rows);
    for (i64 k = 0; k < inner; k++)
        for (i32 q = Bptr[k]; q < Bptr[k + 1]; q++)
            for (i32 p = Aptr[k]; p < Aptr[k + 1]; p++)
                insert(kind, rows, Aidx[p], Bidx[q], Aval[p] * Bval[q], out);
    return finish(kind, rows, columns, cptr, cidx, out);
}

/* C = A B, where A is by columns, B by rows, C by columns. */
i64 outer(i64 kind, i64 inner, i64 rows, i64 columns, const i32 *Aptr, const i32 *Aidx,
          const double *Aval, const i32 *Bptr, const i32 *Bidx, const double *Bval, i32 *cptr,
          i32 *cidx, double *out)
{
#define BY(K)                                                                                  \
    case K:                                                                                    \
        return outer_by(K, inner, rows, columns, Aptr, Aidx, Aval, Bptr, Bidx, Bval, cptr,     \
                        cidx, out);
    switch (kind) { BY(COORD) BY(VECTOR) BY(HASH) BY(BUCKET) }
#undef BY
    return -1;
}
