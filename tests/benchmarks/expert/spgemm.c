/* Sparse matrix times sparse matrix by columns (Gustavson), and sums and products by elements. */
#include <stdint.h>

typedef int64_t i64;
typedef int32_t i32;

static void sort(i32 *a, i64 n)
{
    while (n > 24) { /* quicksort, of the smaller part first */
        const i32 p = a[0], q = a[n / 2], r = a[n - 1];
        const i32 pivot = p < q ? (q < r ? q : p < r ? r : p) : (p < r ? p : q < r ? r : q);
        i64 i = 0, j = n - 1;
        for (;;) {
            while (a[i] < pivot)
                i++;
            while (a[j] > pivot)
                j--;
            if (i >= j)
                break;
            const i32 t = a[i];
            a[i++] = a[j];
            a[j--] = t;
        }
        if (i < n - i) {
            sort(a, i);
            a += i;
            n -= i;
        } else {
            sort(a + i, n - i);
            n = i;
        }
    }
    for (i64 i = 1; i < n; i++) {
        const i32 t = a[i];
        i64 j = i;
        for (; j > 0 && a[j - 1] > t; j--)
            a[j] = a[j - 1];
        a[j] = t;
    }
}

/* C = A B. `seen` (m bits) and `work` (m numbers) are zero before and after. Gives the number of
   entries of C, for which there must be room. */
i64 gustavson(i64 m, i64 n, const i32 *restrict aptr, const i32 *restrict aidx,
              const double *restrict aval, const i32 *restrict bptr, const i32 *restrict bidx,
              const double *restrict bval, i32 *restrict cptr, i32 *restrict cidx,
              double *restrict cval, uint64_t *restrict seen, double *restrict work)
{
    i64 end = 0;
    const i64 words = (m + 63) / 64;
    cptr[0] = 0;
    for (i64 j = 0; j < n; j++) {
        const i64 begin = end;
        for (i32 p = bptr[j]; p < bptr[j + 1]; p++) {
            const i32 k = bidx[p];
            const double b = bval[p];
            for (i32 q = aptr[k]; q < aptr[k + 1]; q++) {
                const i32 i = aidx[q];
                const uint64_t bit = (uint64_t)1 << (i & 63);
                cidx[end] = i;
                end += !(seen[i >> 6] & bit);
                seen[i >> 6] |= bit;
                work[i] += b * aval[q];
            }
        }
        if (end - begin > words) { /* so dense that reading all bits is quicker */
            i64 at = begin;
            for (i64 w = 0; w < words; w++) {
                for (uint64_t bits = seen[w]; bits; bits &= bits - 1)
                    cidx[at++] = (i32)(64 * w + __builtin_ctzll(bits));
                seen[w] = 0;
            }
        } else {
            sort(cidx + begin, end - begin);
            for (i64 at = begin; at < end; at++)
                seen[cidx[at] >> 6] = 0;
        }
        for (i64 at = begin; at < end; at++) {
            cval[at] = work[cidx[at]];
            work[cidx[at]] = 0;
        }
        cptr[j + 1] = (i32)end;
    }
    return end;
}

i64 add(i64 m, const i32 *restrict aptr, const i32 *restrict aidx, const double *restrict aval,
        const i32 *restrict bptr, const i32 *restrict bidx, const double *restrict bval,
        i32 *restrict cptr, i32 *restrict cidx, double *restrict cval)
{
    i64 end = 0;
    cptr[0] = 0;
    for (i64 i = 0; i < m; i++) {
        i32 p = aptr[i], q = bptr[i];
        const i32 pend = aptr[i + 1], qend = bptr[i + 1];
        while (p < pend && q < qend) { /* both or one, without a jump that is hard to predict */
            const i32 a = aidx[p], b = bidx[q];
            cidx[end] = a < b ? a : b;
            cval[end++] = (a <= b ? aval[p] : 0) + (b <= a ? bval[q] : 0);
            p += a <= b;
            q += b <= a;
        }
        for (; p < pend; p++) {
            cidx[end] = aidx[p];
            cval[end++] = aval[p];
        }
        for (; q < qend; q++) {
            cidx[end] = bidx[q];
            cval[end++] = bval[q];
        }
        cptr[i + 1] = (i32)end;
    }
    return end;
}

i64 multiply(i64 m, const i32 *restrict aptr, const i32 *restrict aidx,
             const double *restrict aval, const i32 *restrict bptr, const i32 *restrict bidx,
             const double *restrict bval, i32 *restrict cptr, i32 *restrict cidx,
             double *restrict cval)
{
    i64 end = 0;
    cptr[0] = 0;
    for (i64 i = 0; i < m; i++) {
        i32 p = aptr[i], q = bptr[i];
        const i32 pend = aptr[i + 1], qend = bptr[i + 1];
        while (p < pend && q < qend) {
            const i32 a = aidx[p], b = bidx[q];
            cidx[end] = a;
            cval[end] = aval[p] * bval[q];
            end += a == b;
            p += a <= b;
            q += b <= a;
        }
        cptr[i + 1] = (i32)end;
    }
    return end;
}
