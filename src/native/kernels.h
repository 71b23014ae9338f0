// Interface of a compiled kernel set. Plain data and function pointers only: this header is
// compiled both into the binding and, with other instruction sets, into each kernel set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mercer {

// Rows of a matrix: unit stride along a row, `stride` elements from one row to the next.
template <class T>
struct Rows {
    T* data;
    std::ptrdiff_t rows;
    std::ptrdiff_t columns;
    std::ptrdiff_t stride;
};

// Signs of shape (blocks, repeats, width), unit stride in the last axis; width is a power of two.
template <class T>
struct SignBlocks {
    const T* data;
    std::ptrdiff_t blocks;
    std::ptrdiff_t repeats;
    std::ptrdiff_t width;
    std::ptrdiff_t block_stride;
    std::ptrdiff_t repeat_stride;
};

// Butterflies in the form that butterfly.h describes: `order` of the columns (blocks, width), multipliers
// (blocks, log2(width), width), factors of the results (blocks, width); unit stride in the last axes.
template <class T>
struct Butterflies {
    const std::int64_t* order;
    const T* multipliers;
    const T* factors;
    std::ptrdiff_t blocks;
    std::ptrdiff_t width;
    std::ptrdiff_t order_stride;
    std::ptrdiff_t multiplier_block_stride;
    std::ptrdiff_t multiplier_level_stride;
    std::ptrdiff_t factor_stride;
};

// Rows of a sparse matrix in CSR format: row i has the entries `starts[i]` to `starts[i + 1]` of the other arrays.
template <class T>
struct SparseRows {
    const std::int32_t* starts;
    const std::int32_t* indices;
    const T* values;
};

// Function that is applied to projections before they are written: x, sign x, |x|, max(x, 0), max(x, 0)^2, x|x|, e^x.
enum class Function { identity, sign, absolute, relu, relu_squared, signed_square, exponential };

// Destination of `scale * function(projections)`: it overwrites `rows`, or multiplies them if `product` is true.
template <class T>
struct Result {
    Function function;
    T scale;
    bool product;
    Rows<T> rows;
};

// Kernel as a function of the distance of two rows: the Gaussian, and those of Matern.
enum class Profile { gaussian, matern12, matern32, matern52 };

// Rows near each query: `count` indices of rows per query, of which those that are negative mean no neighbor.
template <class T>
struct Neighbors {
    Rows<const T> rows;
    Rows<const T> queries;
    const std::int64_t* indices;
    std::ptrdiff_t count;
    Profile profile;
};

// Kernel matrices (count, size, size), kernels of the queries with the neighbors (count, size), priors (count),
// noise (count, size) and targets (count, size, right), without gaps between entries.
template <class T>
struct GivenSystems {
    const T* K;
    const T* cross;
    const double* prior;
    const T* noise;
    const T* targets;
    std::ptrdiff_t count;
    std::ptrdiff_t size;
    std::ptrdiff_t right;
};

// Destination of the solutions, without gaps between entries; `solved` is null if there are no targets.
template <class T>
struct Solutions {
    T* weights;
    double* variance;
    T* solved;
    double* jitter;
};

// Rows of a panel, whose features are interleaved.
constexpr std::ptrdiff_t panel_rows = 16;

// Rows that are searched, cell by cell. Cell i has the panels `starts[i]` to `starts[i + 1]`, each with `panel_rows`
// positions. Lengths are multiplied by `scale`, a power of two, so that float32 can hold their squares.
template <class T>
struct Cells {
    std::ptrdiff_t count;
    std::ptrdiff_t first_visits;  // cells that are visited in the order of their distances from the home of a query
    double reach;                 // cells are skipped beyond this multiple of the distance of the farthest candidate
    double scale;
    const std::int64_t* starts;
    const double* centers;      // (count, d), scaled
    const double* radii;        // scaled upper bounds of the distances of rows to their center
    const std::int64_t* index;  // of the row at each position; negative where there is none
    const T* rows;              // (positions, d)
    const float* panels;        // scaled rows minus their center, (panels, d, panel_rows)
    const float* lows;          // lower bounds of their squared lengths
    const double* lengths;      // least and largest length in each panel
};

// Number of neighbors; the row that is none of them, and the number of first rows that may be, or null.
struct Limits {
    std::ptrdiff_t count;
    const std::int64_t* own;
    const std::int64_t* before;
};

template <class T>
struct Kernels {
    void (*sincos_pairs)(Rows<const T> angles, T scale, Rows<T> out);

    void (*cosines)(Rows<const T> angles, const T* phases, T scale, Rows<T> out);

    // Elements of scratch memory that the two functions below need for these signs.
    std::ptrdiff_t (*hadamard_scratch)(SignBlocks<T> signs);

    // `radii` may be null, which means ones.
    void (*sign_hadamard)(Rows<const T> X, SignBlocks<T> signs, const T* radii, Result<T> result, T* scratch);

    // `frequencies` is the length of `radii`: the number of cosines, at most half of an even width.
    void (*sign_hadamard_pairs)(Rows<const T> X, SignBlocks<T> signs, const T* radii,
                                std::ptrdiff_t frequencies, T scale, Rows<T> out, T* scratch);

    // Elements of scratch memory that the two functions below need for these butterflies.
    std::ptrdiff_t (*butterfly_scratch)(Butterflies<T> butterflies);

    // `signs` has two rows; `radii` may be null.
    void (*butterfly)(Rows<const T> X, Rows<const T> signs, Butterflies<T> butterflies, const T* radii,
                      Result<T> result, T* scratch);

    void (*butterfly_pairs)(Rows<const T> X, Rows<const T> signs, Butterflies<T> butterflies, const T* radii,
                            std::ptrdiff_t frequencies, T scale, Rows<T> out, T* scratch);

    // Elements of scratch memory that the three functions below need for these weights.
    std::ptrdiff_t (*dense_scratch)(Rows<const T> weights);

    void (*dense)(Rows<const T> X, Rows<const T> weights, Result<T> result, T* scratch);

    void (*dense_pairs)(Rows<const T> X, Rows<const T> weights, T scale, Rows<T> out, T* scratch);

    void (*dense_cosines)(Rows<const T> X, Rows<const T> weights, const T* phases, T scale, Rows<T> out,
                          T* scratch);

    void (*sparse_product)(SparseRows<T> A, Rows<const T> X, Rows<T> out);

    // Elements of scratch memory that the three functions below need for k neighbors and t targets.
    std::ptrdiff_t (*system_scratch)(std::ptrdiff_t k, std::ptrdiff_t t);

    // `noise_step` is 0 or 1; `targets`, `features` and `query_features` have no columns and are null if absent.
    void (*solve_local)(Neighbors<T> neighbors, const T* noise, std::ptrdiff_t noise_step, Rows<const T> targets,
                        Rows<const T> features, Rows<const T> query_features, Solutions<T> out, T* scratch);

    // The same with features in single precision; the sums of their products are subtracted in that of the rows.
    void (*solve_local_single)(Neighbors<T> neighbors, const T* noise, std::ptrdiff_t noise_step, Rows<const T> targets,
                               Rows<const float> features, Rows<const float> query_features, Solutions<T> out,
                               T* scratch);

    void (*solve_given)(GivenSystems<T> given, Solutions<T> out, T* scratch);

    // Elements of scratch memory that the function below needs: of type double if `full`, of type T otherwise.
    std::ptrdiff_t (*gradient_scratch)(std::ptrdiff_t k, std::ptrdiff_t d, bool full);

    // Adds to `out`: d numbers, or d * d if `full`.
    void (*metric_gradient)(Neighbors<T> neighbors, const T* left, const T* right, const T* cross, bool full,
                            double* out, void* scratch);

    // Fills the arrays of the positions of the cells from `first` to before `last`.
    void (*pack_rows)(Rows<const T> X, Cells<T> cells, std::ptrdiff_t first, std::ptrdiff_t last, T* rows,
                      float* panels, float* lows, double* lengths);

    // Bytes of scratch memory that the function below needs for `m` queries.
    std::ptrdiff_t (*nearest_scratch)(std::ptrdiff_t m, std::ptrdiff_t d, std::ptrdiff_t cells, std::ptrdiff_t count);

    void (*nearest_rows)(Rows<const T> X, const std::int64_t* homes, Cells<T> cells, Limits limits,
                         Rows<std::int64_t> indices, Rows<double> squares, char* scratch);
};

struct KernelSet {
    Kernels<float> float32;
    Kernels<double> float64;
};

extern const KernelSet baseline_kernels;
#ifdef MERCER_X86_KERNELS
extern const KernelSet avx2_kernels;
extern const KernelSet avx512_kernels;
#endif

// The mathematical library's sine and cosine, for arguments beyond the range of the kernels' reduction.
void library_sincos(double angle, double* sine, double* cosine);

}  // namespace mercer
