/* Sparse matrix times sparse matrix by columns (Gustavson), and sums and products by elements. */
#include <stdint.h>

typedef int64_t i64;
typedef int32_t i32;
typedef uint64_t u64;

/* C = A B. What a column has is noted in bits, and which words of bits are not 0 in bits of their own:
   reading them gives the rows in order, without a sort. `seen` (a bit for each row), `used` (a bit for
   each word of `seen`) and `work` (m numbers) are zero before and after. Gives the number of entries of
   C, for which there must be room. */
i64 gustavson(i64 m, i64 n, const i32 *restrict aptr, const i32 *restrict aidx,
              const double *restrict aval, const i32 *restrict bptr, const i32 *restrict bidx,
              const double *restrict bval, i32 *restrict cptr, i32 *restrict cidx,
              double *restrict cval, u64 *restrict seen, u64 *restrict used,
              double *restrict work)
{
    i64 end = 0;
    const i64 groups = (m + 4095) / 4096;
    cptr[0] = 0;
    for (i64 j = 0; j < n; j++) {
        for (i32 p = bptr[j]; p < bptr[j + 1]; p++) {
            const i32 k = bidx[p];
            const double b = bval[p];
            for (i32 q = aptr[k]; q < aptr[k + 1]; q++) {
                const i32 i = aidx[q];
                seen[i >> 6] |= (u64)1 << (i & 63);
                used[i >> 12] |= (u64)1 << (i >> 6 & 63);
                work[i] += b * aval[q];
            }
        }
        for (i64 g = 0; g < groups; g++) {
            for (u64 words = used[g]; words; words &= words - 1) {
                const i64 w = 64 * g + __builtin_ctzll(words);
                for (u64 bits = seen[w]; bits; bits &= bits - 1) {
                    const i64 i = 64 * w + __builtin_ctzll(bits);
                    cidx[end] = (i32)i;
                    cval[end++] = work[i];
                    work[i] = 0;
                }
                seen[w] = 0;
            }
            used[g] = 0;
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
