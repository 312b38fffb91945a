#include "problem.h"

#include <inttypes.h>

#include "fail.h"
#include "memory.h"

static const double CENTRE = 26, NEIGHBOUR = -1;

static void *take(struct problem *problem, int64_t count, size_t size)
{
    problem->bytes += count * (int64_t)size;
    return memory_take(count, size);
}

static double *take_vector(struct problem *problem, int64_t rows)
{
    return take(problem, rows, sizeof(double));
}

static void allocate_level(struct problem *problem, int number, int64_t nx, int64_t ny, int64_t nz)
{
    struct level *level = &problem->levels[number];
    struct matrix *matrix = &level->matrix;
    int64_t rows = nx * ny * nz;
    *level = (struct level){.nx = nx, .ny = ny, .nz = nz, .planes = nz, .plane_chunks = ny, .chunk_rows = nx};
    matrix->rows = rows;
    matrix->lower = take(problem, rows * SIDE, sizeof *matrix->lower);
    matrix->upper = take(problem, rows * SIDE, sizeof *matrix->upper);
    matrix->lower_column = take(problem, rows * SIDE, sizeof *matrix->lower_column);
    matrix->upper_column = take(problem, rows * SIDE, sizeof *matrix->upper_column);
    matrix->diagonal = take_vector(problem, rows);
    matrix->inverse = take_vector(problem, rows);
    level->forward_wait = take(problem, ny * nz, sizeof *level->forward_wait);
    level->backward_wait = take(problem, ny * nz, sizeof *level->backward_wait);
    level->progress = take(problem, nz, sizeof *level->progress);
    if (number < LEVELS - 1)
        level->product = take_vector(problem, rows);
    if (number > 0) {
        level->fine_row = take(problem, rows, sizeof *level->fine_row);
        level->residual = take_vector(problem, rows);
        level->correction = take_vector(problem, rows);
    }
}

void problem_allocate(struct problem *problem, int64_t nx, int64_t ny, int64_t nz)
{
    problem->bytes = 0;
    for (int number = 0; number < LEVELS; number++)
        allocate_level(problem, number, nx >> number, ny >> number, nz >> number);
    double **vectors[] = {&problem->b, &problem->x, &problem->r, &problem->z, &problem->p, &problem->q};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        *vectors[i] = take_vector(problem, nx * ny * nz);
}

struct range level_rows(const struct level *level, const struct member *member)
{
    struct range chunks = member_share(member, level_chunks(level));
    return (struct range){chunks.first * level->chunk_rows, chunks.end * level->chunk_rows};
}

/* The columns of the row at a grid point, ascending; their number is returned, at most 27. */
static int columns_at(const struct level *level, int64_t x, int64_t y, int64_t z, int32_t *columns)
{
    int count = 0;
    for (int64_t k = z - 1; k <= z + 1; k++)
        for (int64_t j = y - 1; j <= y + 1; j++)
            for (int64_t i = x - 1; i <= x + 1; i++)
                if (k >= 0 && k < level->nz && j >= 0 && j < level->ny && i >= 0 && i < level->nx)
                    columns[count++] = (int32_t)((k * level->ny + j) * level->nx + i);
    return count;
}

/* Enter a row's columns, ascending, into the matrix. */
static void enter_row(struct matrix *matrix, int64_t row, const int32_t *columns, int count)
{
    int below = 0;
    while (columns[below] < row)
        below++;
    for (int i = 0; i < SIDE; i++) {
        int low = below - SIDE + i, high = below + 1 + i;
        matrix->lower[row * SIDE + i] = low >= 0 ? NEIGHBOUR : 0;
        matrix->lower_column[row * SIDE + i] = low >= 0 ? columns[low] : (int32_t)row;
        matrix->upper[row * SIDE + i] = high < count ? NEIGHBOUR : 0;
        matrix->upper_column[row * SIDE + i] = high < count ? columns[high] : (int32_t)row;
    }
    matrix->diagonal[row] = CENTRE;
    matrix->inverse[row] = 1 / CENTRE;
}

/* Enter one grid line of rows; returns its number of entries. */
static int64_t enter_chunk(struct level *level, int64_t chunk)
{
    int32_t columns[27];
    int64_t entries = 0;
    for (int64_t x = 0; x < level->nx; x++) {
        int count = columns_at(level, x, chunk % level->ny, chunk / level->ny, columns);
        enter_row(&level->matrix, chunk * level->nx + x, columns, count);
        entries += count;
    }
    return entries;
}

/*
 * Read off the matrix what a chunk's rows wait for. The pattern is symmetric, so that this also keeps a chunk from
 * overwriting what rows of the plane beside it still need.
 */
static void find_waits(struct level *level, int64_t chunk)
{
    const struct matrix *matrix = &level->matrix;
    int64_t plane = chunk / level->plane_chunks, before = 0, after = 0;
    int64_t entries = level->chunk_rows * SIDE, first = chunk * entries;
    for (int64_t entry = first; entry < first + entries; entry++) {
        int64_t low = matrix->lower_column[entry] / level->chunk_rows;
        int64_t high = matrix->upper_column[entry] / level->chunk_rows;
        int64_t low_plane = low / level->plane_chunks, high_plane = high / level->plane_chunks;
        if (low_plane < plane - 1 || high_plane > plane + 1)
            fail("chunk %" PRId64 " has entries beyond the plane beside its own: it cannot be swept in this order", chunk);
        if (low_plane == plane - 1 && low % level->plane_chunks + 1 > before)
            before = low % level->plane_chunks + 1;
        if (high_plane == plane + 1 && level->plane_chunks - high % level->plane_chunks > after)
            after = level->plane_chunks - high % level->plane_chunks;
    }
    level->forward_wait[chunk] = (int32_t)before;
    level->backward_wait[chunk] = (int32_t)after;
}

static void build_level(struct level *level, struct member *member)
{
    struct range chunks = member_share(member, level_chunks(level));
    double *entries = member_terms(member);
    for (int64_t chunk = chunks.first; chunk < chunks.end; chunk++) {
        entries[chunk] = (double)enter_chunk(level, chunk);
        find_waits(level, chunk);
    }
    int64_t nonzeros = (int64_t)member_sum(member, level_chunks(level));
    int64_t expected = (3 * level->nx - 2) * (3 * level->ny - 2) * (3 * level->nz - 2);
    if (nonzeros != expected)
        fail("the matrix has %" PRId64 " entries, %" PRId64 " were expected", nonzeros, expected);
    if (member->rank == 0)
        level->matrix.nonzeros = nonzeros;
}

/* The coarse grid has every second point of the fine one in each direction. */
static void map_to_finer(struct level *coarse, const struct level *fine, const struct member *member)
{
    struct range rows = level_rows(coarse, member);
    for (int64_t row = rows.first; row < rows.end; row++) {
        int64_t x = row % coarse->nx, y = row / coarse->nx % coarse->ny, z = row / coarse->nx / coarse->ny;
        coarse->fine_row[row] = (int32_t)((2 * z * fine->ny + 2 * y) * fine->nx + 2 * x);
        coarse->residual[row] = coarse->correction[row] = 0;
    }
}

/* Sums of the rows: the right-hand side whose solution is 1 everywhere. The other vectors get their pages here. */
static void fill_vectors(struct problem *problem, const struct member *member)
{
    const struct matrix *matrix = &problem->levels[0].matrix;
    struct range rows = level_rows(&problem->levels[0], member);
    for (int64_t row = rows.first; row < rows.end; row++) {
        double sum = matrix->diagonal[row];
        for (int64_t entry = row * SIDE; entry < (row + 1) * SIDE; entry++)
            sum += matrix->lower[entry] + matrix->upper[entry];
        problem->b[row] = sum;
        problem->x[row] = problem->r[row] = problem->z[row] = problem->p[row] = problem->q[row] = 0;
    }
}

void problem_build(struct problem *problem, struct member *member)
{
    for (int number = 0; number < LEVELS; number++) {
        struct level *level = &problem->levels[number];
        build_level(level, member);
        if (number > 0)
            map_to_finer(level, &problem->levels[number - 1], member);
    }
    fill_vectors(problem, member);
    member_meet(member);
}
