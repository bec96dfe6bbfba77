/* Triangles, sparse matrix times sparse vector, breadth-first search, shortest paths. */
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef int64_t i64;
typedef int32_t i32;

/* Row i of a graph names its smaller neighbours: for each i and each such k, how many both have. */
i64 triangles(i64 n, const i32 *restrict ptr, const i32 *restrict idx)
{
    i64 count = 0;
    for (i64 i = 0; i < n; i++)
        for (i32 e = ptr[i]; e < ptr[i + 1]; e++) {
            const i32 k = idx[e];
            i32 p = ptr[i], q = ptr[k];
            const i32 pend = e, qend = ptr[k + 1];
            while (p < pend && q < qend) {
                const i32 a = idx[p], b = idx[q];
                count += a == b;
                p += a <= b;
                q += b <= a;
            }
        }
    return count;
}

/* The same by marks: `marked` has a byte for each vertex, 0 before and after. */
i64 triangles_marks(i64 n, const i32 *restrict ptr, const i32 *restrict idx,
                    uint8_t *restrict marked)
{
    i64 count = 0;
    for (i64 i = 0; i < n; i++) {
        for (i32 e = ptr[i]; e < ptr[i + 1]; e++)
            marked[idx[e]] = 1;
        for (i32 e = ptr[i]; e < ptr[i + 1]; e++) {
            const i32 k = idx[e], end = ptr[k + 1];
            i32 found = 0;
            for (i32 q = ptr[k]; q < end; q++)
                found += marked[idx[q]];
            count += found;
        }
        for (i32 e = ptr[i]; e < ptr[i + 1]; e++)
            marked[idx[e]] = 0;
    }
    return count;
}

/* y = A x by columns: x has nx entries. */
void spmspv_scatter(i64 m, const i32 *restrict ptr, const i32 *restrict idx,
                    const double *restrict val, i64 nx, const i32 *restrict xidx,
                    const double *restrict xval, double *restrict y)
{
    memset(y, 0, m * sizeof(double));
    for (i64 p = 0; p < nx; p++) {
        const double xj = xval[p];
        const i32 j = xidx[p], end = ptr[j + 1];
        for (i32 q = ptr[j]; q < end; q++)
            y[idx[q]] += val[q] * xj;
    }
}

/* y = A x by rows, each merged with x. */
void spmspv_merge(i64 m, const i32 *restrict ptr, const i32 *restrict idx,
                  const double *restrict val, i64 nx, const i32 *restrict xidx,
                  const double *restrict xval, double *restrict y)
{
    for (i64 i = 0; i < m; i++) {
        double sum = 0;
        i32 q = ptr[i];
        const i32 end = ptr[i + 1];
        i64 p = 0;
        while (p < nx && q < end) {
            const i32 a = xidx[p], b = idx[q];
            if (a == b)
                sum += xval[p] * val[q];
            p += a <= b;
            q += b <= a;
        }
        y[i] = sum;
    }
}

/* Parents (-1: not reached; the source is its own), in the direction that suits the frontier. The
   graph is symmetric; `queue` has room for n, and `front` for a byte for each vertex. */
void bfs(i64 n, i64 source, const i32 *restrict ptr, const i32 *restrict idx, i32 *restrict parent,
         i32 *restrict queue, uint8_t *restrict front)
{
    i64 head = 0, tail = 1, unexplored = ptr[n];
    int pulling = 0;
    memset(parent, 0xff, n * sizeof(i32));
    parent[source] = (i32)source;
    queue[0] = (i32)source;
    while (head < tail) {
        const i64 begin = head, count = tail - head;
        i64 leaving = 0; /* the edges that leave the frontier */
        for (i64 q = begin; q < tail; q++)
            leaving += ptr[queue[q] + 1] - ptr[queue[q]];
        unexplored -= leaving;
        pulling = pulling ? 24 * count >= n : 14 * leaving > unexplored;
        head = tail;
        if (pulling) {
            memset(front, 0, n);
            for (i64 q = begin; q < head; q++)
                front[queue[q]] = 1;
            for (i64 k = 0; k < n; k++) {
                if (parent[k] >= 0)
                    continue;
                for (i32 e = ptr[k]; e < ptr[k + 1]; e++)
                    if (front[idx[e]]) {
                        parent[k] = idx[e];
                        queue[tail++] = (i32)k;
                        break;
                    }
            }
        } else {
            for (i64 q = begin; q < head; q++) {
                const i32 j = queue[q];
                for (i32 e = ptr[j]; e < ptr[j + 1]; e++)
                    if (parent[idx[e]] < 0) {
                        parent[idx[e]] = j;
                        queue[tail++] = idx[e];
                    }
            }
        }
    }
}

/* Distances and parents along edges from row to column; `queue` and `other` have room for n,
   `queued` for a byte for each vertex. */
void bellman_ford(i64 n, i64 source, const i32 *restrict ptr, const i32 *restrict idx,
                  const double *restrict length, double *restrict distance, i32 *restrict parent,
                  i32 *queue, i32 *other, uint8_t *restrict queued)
{
    i64 count = 1;
    for (i64 i = 0; i < n; i++) {
        distance[i] = 1e300;
        parent[i] = -1;
    }
    memset(queued, 0, n);
    distance[source] = 0;
    parent[source] = (i32)source;
    queue[0] = (i32)source;
    while (count > 0) {
        i64 found = 0;
        for (i64 q = 0; q < count; q++)
            queued[queue[q]] = 0;
        for (i64 q = 0; q < count; q++) {
            const i32 j = queue[q];
            const double d = distance[j];
            for (i32 e = ptr[j]; e < ptr[j + 1]; e++) {
                const i32 i = idx[e];
                if (d + length[e] < distance[i]) {
                    distance[i] = d + length[e];
                    parent[i] = j;
                    if (!queued[i]) {
                        queued[i] = 1;
                        other[found++] = i;
                    }
                }
            }
        }
        i32 *t = queue;
        queue = other;
        other = t;
        count = found;
    }
}

/* The same in rounds, in which no distance of the round is read, as Finch'25 Fig 24 has it: `last` has the
   distances before a round. The parents are found behind the rounds. */
void bellman_ford_rounds(i64 n, i64 source, const i32 *restrict ptr, const i32 *restrict idx,
                         const double *restrict length, double *restrict distance,
                         i32 *restrict parent, i32 *queue, i32 *other, uint8_t *restrict queued,
                         double *restrict last)
{
    i64 count = 1;
    for (i64 i = 0; i < n; i++) {
        distance[i] = last[i] = 1e300;
        parent[i] = -1;
    }
    memset(queued, 0, n);
    distance[source] = last[source] = 0;
    queue[0] = (i32)source;
    while (count > 0) {
        i64 found = 0;
        for (i64 q = 0; q < count; q++) {
            const i32 j = queue[q];
            for (i32 e = ptr[j]; e < ptr[j + 1]; e++) {
                const i32 i = idx[e];
                const double d = last[j] + length[e];
                if (d < last[i]) {
                    if (d < distance[i])
                        distance[i] = d;
                    if (!queued[i]) {
                        queued[i] = 1;
                        other[found++] = i;
                    }
                }
            }
        }
        for (i64 q = 0; q < found; q++) {
            last[other[q]] = distance[other[q]];
            queued[other[q]] = 0;
        }
        i32 *t = queue;
        queue = other;
        other = t;
        count = found;
    }
    parent[source] = (i32)source;
    for (i64 j = 0; j < n; j++)
        if (distance[j] < 1e300)
            for (i32 e = ptr[j]; e < ptr[j + 1]; e++)
                if (parent[idx[e]] < 0 && distance[j] + length[e] == distance[idx[e]])
                    parent[idx[e]] = (i32)j;
}
