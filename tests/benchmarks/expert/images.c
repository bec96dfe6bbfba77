/* Erosion of packed bits and of runs, masked histograms, sparse convolution, blending of runs.
   An image is n rows of m pixels; a run list of rows has the runs ptr[y] to ptr[y + 1] - 1. */
#include <math.h>
#include <stdint.h>

typedef int64_t i64;
typedef int32_t i32;
typedef uint64_t u64;

/* One erosion by 3 x 3; `words` words of 64 pixels make a row; beyond the border all is on. */
void erode_bits(i64 words, i64 n, const u64 *restrict in, u64 *restrict tmp, u64 *restrict out)
{
    const u64 on = ~(u64)0;
    for (i64 y = 0; y < n; y++) {
        const u64 *here = in + y * words;
        const u64 *above = y > 0 ? here - words : here, *below = y + 1 < n ? here + words : here;
        u64 *to = out + y * words;
        for (i64 w = 0; w < words; w++)
            tmp[w + 1] = above[w] & here[w] & below[w];
        tmp[0] = tmp[words + 1] = on;
        for (i64 w = 0; w < words; w++)
            to[w] = ((tmp[w + 2] << 63) | (tmp[w + 1] >> 1)) & tmp[w + 1]
                    & ((tmp[w + 1] << 1) | (tmp[w] >> 63));
    }
}

/* The runs that two rows share. */
static i64 meet(const i32 *l1, const i32 *r1, i64 n1, const i32 *l2, const i32 *r2, i64 n2,
                i32 *l, i32 *r)
{
    i64 p = 0, q = 0, count = 0;
    while (p < n1 && q < n2) {
        const i32 from = l1[p] > l2[q] ? l1[p] : l2[q];
        const i32 a = r1[p], b = r2[q], to = a < b ? a : b;
        l[count] = from;
        r[count] = to;
        count += from <= to;
        p += a <= b;
        q += b <= a;
    }
    return count;
}

/* One erosion by 3 x 3 of runs left[q] to right[q]. `work` has room for four rows. */
i64 erode_runs(i64 m, i64 n, const i32 *ptr, const i32 *left, const i32 *right, i32 *work,
               i32 *optr, i32 *oleft, i32 *oright)
{
    i32 *l1 = work, *r1 = work + m, *l2 = work + 2 * m, *r2 = work + 3 * m;
    i64 end = 0;
    optr[0] = 0;
    for (i64 y = 0; y < n; y++) {
        const i64 a = y > 0 ? y - 1 : y, b = y + 1 < n ? y + 1 : y;
        i64 count = meet(left + ptr[a], right + ptr[a], ptr[a + 1] - ptr[a], left + ptr[y],
                         right + ptr[y], ptr[y + 1] - ptr[y], l1, r1);
        count = meet(l1, r1, count, left + ptr[b], right + ptr[b], ptr[b + 1] - ptr[b], l2, r2);
        for (i64 q = 0; q < count; q++) {
            const i32 from = l2[q] > 0 ? l2[q] + 1 : 0, to = r2[q] < m - 1 ? r2[q] - 1 : r2[q];
            oleft[end] = from;
            oright[end] = to;
            end += from <= to;
        }
        optr[y + 1] = (i32)end;
    }
    return end;
}

/* Sixteen bins of sixteen shades, where the mask is on; four counters for each bin, so that equal
   neighbours do not wait for each other. */
void histogram(i64 m, i64 n, const uint8_t *restrict image, const i32 *restrict ptr,
               const i32 *restrict left, const i32 *restrict right, i64 *restrict bins)
{
    i64 parts[4][16] = {{0}};
    for (i64 y = 0; y < n; y++)
        for (i32 q = ptr[y]; q < ptr[y + 1]; q++) {
            const uint8_t *row = image + y * m;
            i64 x = left[q];
            for (; x + 3 <= right[q]; x += 4) {
                parts[0][row[x] >> 4]++;
                parts[1][row[x + 1] >> 4]++;
                parts[2][row[x + 2] >> 4]++;
                parts[3][row[x + 3] >> 4]++;
            }
            for (; x <= right[q]; x++)
                parts[0][row[x] >> 4]++;
        }
    for (int b = 0; b < 16; b++)
        bins[b] = parts[0][b] + parts[1][b] + parts[2][b] + parts[3][b];
}

/* Where the image has an entry: the sum of the entries in the 11 x 11 around it, weighted. `at` has
   room for 11 places. */
void convolution(i64 n, const i32 *restrict ptr, const i32 *restrict idx,
                 const double *restrict val, const double *restrict weight, double *restrict out)
{
    for (i64 y = 0; y < n; y++) {
        i32 at[11];
        const i64 first = y < 5 ? 0 : y - 5, last = y + 5 < n ? y + 5 : n - 1;
        for (i64 k = first; k <= last; k++)
            at[k - first] = ptr[k];
        for (i32 q = ptr[y]; q < ptr[y + 1]; q++) {
            const i32 x = idx[q];
            double sum = 0;
            for (i64 k = first; k <= last; k++) {
                const double *row = weight + 11 * (k - y + 5) + 5 - x;
                i32 p = at[k - first];
                while (p < ptr[k + 1] && idx[p] < x - 5)
                    p++;
                at[k - first] = p;
                for (; p < ptr[k + 1] && idx[p] <= x + 5; p++)
                    sum += row[idx[p]] * val[p];
            }
            out[q] = sum;
        }
    }
}

/* alpha b + beta c, both in runs up to right[q] of value val[q]; equal neighbours are one run. */
i64 blend(i64 m, i64 n, double alpha, double beta, const i32 *restrict bptr,
          const i32 *restrict bright, const uint8_t *restrict bval, const i32 *restrict cptr,
          const i32 *restrict cright, const uint8_t *restrict cval, i32 *restrict ptr,
          i32 *restrict right, uint8_t *restrict val)
{
    i64 end = 0;
    ptr[0] = 0;
    for (i64 y = 0; y < n; y++) {
        i32 p = bptr[y], q = cptr[y], at = -1;
        while (at < m - 1) {
            const uint8_t v = (uint8_t)nearbyint(alpha * bval[p] + beta * cval[q]);
            const i32 a = bright[p], b = cright[q];
            at = a < b ? a : b;
            if (end > ptr[y] && val[end - 1] == v) {
                right[end - 1] = at;
            } else {
                right[end] = at;
                val[end++] = v;
            }
            p += a == at;
            q += b == at;
        }
        ptr[y + 1] = (i32)end;
    }
    return end;
}
