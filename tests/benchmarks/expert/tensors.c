/* Sampled products, and products of a sparse tensor (CSF: fibers p of row k, entries q of fiber p). */
#include <stdint.h>
#include <string.h>

typedef int64_t i64;
typedef int32_t i32;

/* C = A o (B' D) by columns, where columns of B and D have `size` entries; C has A's structure. */
i64 sddmm(i64 n, i64 size, const i32 *restrict ptr, const i32 *restrict idx,
          const double *restrict val, const double *restrict B, const double *restrict D,
          i32 *restrict cptr, i32 *restrict cidx, double *restrict out)
{
    memcpy(cptr, ptr, (n + 1) * sizeof(i32));
    memcpy(cidx, idx, ptr[n] * sizeof(i32));
    for (i64 j = 0; j < n; j++) {
        const double *d = D + j * size;
        for (i32 q = ptr[j]; q < ptr[j + 1]; q++) {
            const double *b = B + idx[q] * size;
            double sum = 0;
            for (i64 k = 0; k < size; k++)
                sum += b[k] * d[k];
            out[q] = val[q] * sum;
        }
    }
    return ptr[n];
}

/* Eight columns in one vector; as many vectors at a time as registers have room for twice. */
typedef double v8 __attribute__((vector_size(64), aligned(8)));
#ifdef __AVX512F__
enum { VECTORS = 4 };
#else
enum { VECTORS = 2 };
#endif
enum { WIDE = 8 * VECTORS };

/* M[:, k] = sum over j and i of X[i, j, k] A[:, i] B[:, j], columns of `rank` entries, which are
   taken WIDE at a time: all sums are in registers. */
void mttkrp(i64 n, i64 rank, const i32 *restrict fptr, const i32 *restrict fidx,
            const i32 *restrict ptr, const i32 *restrict idx, const double *restrict val,
            const double *restrict A, const double *restrict B, double *restrict M)
{
    i64 first = 0;
    for (; first + WIDE <= rank; first += WIDE)
        for (i64 k = 0; k < n; k++) {
            v8 total[VECTORS] = {0};
            for (i32 p = fptr[k]; p < fptr[k + 1]; p++) {
                const v8 *b = (const v8 *)(B + fidx[p] * rank + first);
                v8 sum[VECTORS] = {0};
                for (i32 q = ptr[p]; q < ptr[p + 1]; q++) {
                    const v8 *a = (const v8 *)(A + idx[q] * rank + first);
#pragma GCC unroll 4
                    for (int r = 0; r < VECTORS; r++)
                        sum[r] += val[q] * a[r];
                }
#pragma GCC unroll 4
                for (int r = 0; r < VECTORS; r++)
                    total[r] += sum[r] * b[r];
            }
            memcpy(M + k * rank + first, total, sizeof total);
        }
    for (; first < rank; first++) /* the rest, one by one */
        for (i64 k = 0; k < n; k++) {
            double total = 0;
            for (i32 p = fptr[k]; p < fptr[k + 1]; p++)
                for (i32 q = ptr[p]; q < ptr[p + 1]; q++)
                    total += val[q] * A[idx[q] * rank + first] * B[fidx[p] * rank + first];
            M[k * rank + first] = total;
        }
}

/* C[j, k] = sum over i of X[i, j, k] v[i]; C has the fibers of X. */
i64 ttv(i64 n, const i32 *restrict fptr, const i32 *restrict fidx, const i32 *restrict ptr,
        const i32 *restrict idx, const double *restrict val, const double *restrict v,
        i32 *restrict cptr, i32 *restrict cidx, double *restrict out)
{
    const i64 fibers = fptr[n];
    memcpy(cptr, fptr, (n + 1) * sizeof(i32));
    memcpy(cidx, fidx, fibers * sizeof(i32));
    for (i64 p = 0; p < fibers; p++) {
        double sum = 0;
        for (i32 q = ptr[p]; q < ptr[p + 1]; q++)
            sum += val[q] * v[idx[q]];
        out[p] = sum;
    }
    return fibers;
}
