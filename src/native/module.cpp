// Python binding of the kernel sets: one submodule for each, with the same functions.
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "kernels.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using mercer::Butterflies;
using mercer::Cells;
using mercer::Function;
using mercer::GivenSystems;
using mercer::Kernels;
using mercer::KernelSet;
using mercer::Neighbors;
using mercer::Profile;
using mercer::Limits;
using mercer::Result;
using mercer::Rows;
using mercer::SignBlocks;
using mercer::Solutions;
using mercer::SparseRows;

template <class T>
using Vector = nb::ndarray<T, nb::ndim<1>, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<T, nb::ndim<2>, nb::device::cpu>;
template <class T>
using Cube = nb::ndarray<T, nb::ndim<3>, nb::device::cpu>;

// The Python layer raises errors that explain; this check only prevents access to memory out of bounds.
void require(bool condition) {
    if (!condition) throw std::invalid_argument("shapes or strides do not fit: call mercer.linalg instead");
}

template <class Array>
void require_unit_stride(const Array& array) {
    const size_t last = array.ndim() - 1;
    require(array.size() == 0 || array.shape(last) == 1 || array.stride(last) == 1);
}

template <class T>
Rows<T> rows_of(const Matrix<T>& matrix) {
    require_unit_stride(matrix);
    return {matrix.data(), std::ptrdiff_t(matrix.shape(0)), std::ptrdiff_t(matrix.shape(1)), matrix.stride(0)};
}

template <class T>
SignBlocks<T> signs_of(const Cube<const T>& signs) {
    require_unit_stride(signs);
    const size_t width = signs.shape(2);
    require(signs.shape(0) > 0 && signs.shape(1) > 0 && width > 0 && (width & (width - 1)) == 0);
    return {signs.data(),
            std::ptrdiff_t(signs.shape(0)),
            std::ptrdiff_t(signs.shape(1)),
            std::ptrdiff_t(width),
            signs.stride(0),
            signs.stride(1)};
}

template <class T>
Butterflies<T> butterflies_of(const Matrix<const std::int64_t>& order, const Cube<const T>& multipliers,
                              const Matrix<const T>& factors) {
    require_unit_stride(order);
    require_unit_stride(multipliers);
    require_unit_stride(factors);
    const size_t blocks = order.shape(0), width = order.shape(1), levels = multipliers.shape(1);
    require(blocks > 0 && width > 0 && levels < 31 && width == size_t(1) << levels);
    require(multipliers.shape(0) == blocks && multipliers.shape(2) == width);
    require(factors.shape(0) == blocks && factors.shape(1) == width);
    for (size_t b = 0; b < blocks; ++b) {
        for (size_t j = 0; j < width; ++j) {
            const std::int64_t column = order.data()[std::ptrdiff_t(b) * order.stride(0) + std::ptrdiff_t(j)];
            require(0 <= column && column < std::int64_t(width));
        }
    }
    return {order.data(),
            multipliers.data(),
            factors.data(),
            std::ptrdiff_t(blocks),
            std::ptrdiff_t(width),
            order.stride(0),
            multipliers.stride(0),
            multipliers.stride(1),
            factors.stride(0)};
}

// Requires that the columns of X fit into a block, and that the projections use every block.
template <class T, class Blocks>
void require_projection(Rows<const T> X, const Blocks& blocks, std::ptrdiff_t frequencies, Rows<T> out) {
    require(X.rows == out.rows && X.columns <= blocks.width);
    require((blocks.blocks - 1) * blocks.width < frequencies && frequencies <= blocks.blocks * blocks.width);
}

template <class T>
void require_mixing(Rows<const T> signs, const Butterflies<T>& butterflies) {
    require(signs.rows == 2 && signs.columns == butterflies.width);
}

template <class T>
void require_pairs(std::ptrdiff_t frequencies, Rows<T> out) {
    require(frequencies <= out.columns && out.columns <= 2 * frequencies);
}

Function function_of(const std::string& name) {
    static constexpr struct {
        const char* name;
        Function function;
    } functions[] = {
        {"identity", Function::identity},
        {"sign", Function::sign},
        {"abs", Function::absolute},
        {"relu", Function::relu},
        {"relu_squared", Function::relu_squared},
        {"signed_square", Function::signed_square},
        {"exp", Function::exponential},
    };
    for (const auto& entry : functions)
        if (name == entry.name) return entry.function;
    throw std::invalid_argument("no such function: " + name);
}

template <class T>
using Radii = std::optional<Vector<const T>>;

// Returns null if there are no radii.
template <class T>
const T* radii_of(const Radii<T>& radii, std::ptrdiff_t frequencies) {
    if (!radii) return nullptr;
    require_unit_stride(*radii);
    require(std::ptrdiff_t(radii->shape(0)) == frequencies);
    return radii->data();
}

template <class T>
void require_dense(Rows<const T> X, Rows<const T> weights, Rows<T> out) {
    require(X.rows == out.rows && X.columns == weights.rows);
}

template <class T>
SparseRows<T> sparse_of(const Vector<const std::int32_t>& starts, const Vector<const std::int32_t>& indices,
                        const Vector<const T>& values, std::ptrdiff_t rows, std::ptrdiff_t columns) {
    require_unit_stride(starts);
    require_unit_stride(indices);
    require_unit_stride(values);
    const auto entries = std::ptrdiff_t(indices.shape(0));
    require(std::ptrdiff_t(starts.shape(0)) == rows + 1 && std::ptrdiff_t(values.shape(0)) == entries);
    const std::int32_t* start = starts.data();
    require(start[0] >= 0 && start[rows] <= entries);
    for (std::ptrdiff_t i = 0; i < rows; ++i) require(start[i] <= start[i + 1]);
    for (std::ptrdiff_t k = start[0]; k < start[rows]; ++k)
        require(0 <= indices.data()[k] && indices.data()[k] < columns);
    return {start, indices.data(), values.data()};
}

Profile profile_of(const std::string& name) {
    static constexpr struct {
        const char* name;
        Profile profile;
    } profiles[] = {
        {"gaussian", Profile::gaussian},
        {"matern12", Profile::matern12},
        {"matern32", Profile::matern32},
        {"matern52", Profile::matern52},
    };
    for (const auto& entry : profiles)
        if (name == entry.name) return entry.profile;
    throw std::invalid_argument("no such profile: " + name);
}

// Requires the shape, and that there are no gaps between entries.
template <class Array>
void require_shape(const Array& array, std::initializer_list<std::ptrdiff_t> shape) {
    require(array.ndim() == shape.size());
    std::ptrdiff_t step = 1;
    for (size_t axis = array.ndim(); axis-- > 0;) {
        const std::ptrdiff_t length = shape.begin()[axis];
        require(std::ptrdiff_t(array.shape(axis)) == length);
        require(array.size() == 0 || length == 1 || array.stride(axis) == step);
        step *= length;
    }
}

template <class T>
Neighbors<T> neighbors_of(const Matrix<const T>& rows, const Matrix<const std::int64_t>& indices,
                          const Matrix<const T>& queries, const std::string& profile) {
    const Neighbors<T> neighbors{rows_of(rows), rows_of(queries), indices.data(), std::ptrdiff_t(indices.shape(1)),
                                 profile_of(profile)};
    require(neighbors.rows.columns == neighbors.queries.columns);
    require_shape(indices, {neighbors.queries.rows, neighbors.count});
    for (std::ptrdiff_t i = 0; i < neighbors.queries.rows * neighbors.count; ++i)
        require(neighbors.indices[i] < neighbors.rows.rows);
    return neighbors;
}

template <class T>
using OptionalMatrix = std::optional<Matrix<const T>>;

// Rows without columns if there is no matrix.
template <class T>
Rows<const T> optional_rows(const OptionalMatrix<T>& matrix, std::ptrdiff_t rows) {
    if (!matrix) return {nullptr, rows, 0, 0};
    require(std::ptrdiff_t(matrix->shape(0)) == rows);
    return rows_of(*matrix);
}

template <class T>
Solutions<T> solutions_of(const Matrix<T>& weights, const Vector<double>& variance,
                          const std::optional<Cube<T>>& solved, const Vector<double>& jitter, std::ptrdiff_t m,
                          std::ptrdiff_t k, bool targets, std::ptrdiff_t t) {
    require_shape(weights, {m, k});
    require_shape(variance, {m});
    require_shape(jitter, {m});
    require(solved.has_value() == targets);
    if (solved) require_shape(*solved, {m, k, t});
    return {weights.data(), variance.data(), solved ? solved->data() : nullptr, jitter.data()};
}

constexpr std::align_val_t cache_line{64};

struct FreeAligned {
    void operator()(void* memory) const { ::operator delete(memory, cache_line); }
};

template <class T>
std::unique_ptr<T, FreeAligned> allocate(std::ptrdiff_t elements) {
    return std::unique_ptr<T, FreeAligned>(
        static_cast<T*>(::operator new(size_t(elements) * sizeof(T), cache_line)));
}

// Features have the type of the rows, or single precision.
template <class T, class F, class Solve>
void define_solve_local(nb::module_& module, const Kernels<T>& kernels, const Solve& function) {
    module.def(
        "solve_local",
        [&kernels, &function](const Matrix<const T>& rows, const Matrix<const std::int64_t>& indices,
                              const Matrix<const T>& queries, const std::string& profile,
                              const Vector<const T>& noise, const OptionalMatrix<T>& targets,
                              const OptionalMatrix<F>& features, const OptionalMatrix<F>& query_features,
                              const Matrix<T>& weights, const Vector<double>& variance,
                              const std::optional<Cube<T>>& solved, const Vector<double>& jitter) {
            const Neighbors<T> neighbors = neighbors_of<T>(rows, indices, queries, profile);
            const std::ptrdiff_t n = neighbors.rows.rows, m = neighbors.queries.rows, k = neighbors.count;
            const auto noises = std::ptrdiff_t(noise.shape(0));
            require_shape(noise, {noises});
            require(noises == 1 || noises == n);
            const Rows<const T> goals = optional_rows<T>(targets, n);
            const Rows<const F> from = optional_rows<F>(features, n);
            const Rows<const F> to = optional_rows<F>(query_features, m);
            require(from.columns == to.columns && features.has_value() == query_features.has_value());
            const Solutions<T> out =
                solutions_of<T>(weights, variance, solved, jitter, m, k, targets.has_value(), goals.columns);
            nb::gil_scoped_release release;
            const auto scratch = allocate<T>(kernels.system_scratch(k, goals.columns));
            function(neighbors, noise.data(), noises == 1 ? 0 : 1, goals, from, to, out, scratch.get());
        },
        "rows"_a.noconvert(), "indices"_a.noconvert(), "queries"_a.noconvert(), "profile"_a, "noise"_a.noconvert(),
        "targets"_a.noconvert().none(), "features"_a.noconvert().none(), "query_features"_a.noconvert().none(),
        "weights"_a.noconvert(), "variance"_a.noconvert(), "solved"_a.noconvert().none(), "jitter"_a.noconvert());
}

template <class T>
void bind(nb::module_& module, const Kernels<T>& kernels) {
    module.def(
        "sincos_pairs",
        [&kernels](const Matrix<const T>& angles, double scale, const Matrix<T>& out) {
            const Rows<const T> from = rows_of(angles);
            const Rows<T> to = rows_of(out);
            require(from.rows == to.rows);
            require_pairs(from.columns, to);
            nb::gil_scoped_release release;
            kernels.sincos_pairs(from, T(scale), to);
        },
        "angles"_a.noconvert(), "scale"_a, "out"_a.noconvert());

    module.def(
        "cosines",
        [&kernels](const Matrix<const T>& angles, const Vector<const T>& phases, double scale,
                   const Matrix<T>& out) {
            const Rows<const T> from = rows_of(angles);
            const Rows<T> to = rows_of(out);
            require_unit_stride(phases);
            require(from.rows == to.rows && from.columns == to.columns);
            require(std::ptrdiff_t(phases.shape(0)) == from.columns);
            nb::gil_scoped_release release;
            kernels.cosines(from, phases.data(), T(scale), to);
        },
        "angles"_a.noconvert(), "phases"_a.noconvert(), "scale"_a, "out"_a.noconvert());

    module.def(
        "sign_hadamard",
        [&kernels](const Matrix<const T>& X, const Cube<const T>& signs, const Matrix<T>& out, const Radii<T>& radii,
                   const std::string& function, double scale, bool product) {
            const Rows<const T> from = rows_of(X);
            const SignBlocks<T> blocks = signs_of<T>(signs);
            const Rows<T> to = rows_of(out);
            const Result<T> result{function_of(function), T(scale), product, to};
            const T* factors = radii_of<T>(radii, to.columns);
            require_projection(from, blocks, to.columns, to);
            nb::gil_scoped_release release;
            const auto scratch = allocate<T>(kernels.hadamard_scratch(blocks));
            kernels.sign_hadamard(from, blocks, factors, result, scratch.get());
        },
        "X"_a.noconvert(), "signs"_a.noconvert(), "out"_a.noconvert(), "radii"_a.noconvert() = nb::none(),
        "function"_a = "identity", "scale"_a = 1.0, "product"_a = false);

    module.def(
        "sign_hadamard_pairs",
        [&kernels](const Matrix<const T>& X, const Cube<const T>& signs, const Vector<const T>& radii,
                   double scale, const Matrix<T>& out) {
            const Rows<const T> from = rows_of(X);
            const SignBlocks<T> blocks = signs_of<T>(signs);
            const Rows<T> to = rows_of(out);
            const auto frequencies = std::ptrdiff_t(radii.shape(0));
            require_unit_stride(radii);
            require_projection(from, blocks, frequencies, to);
            require_pairs(frequencies, to);
            nb::gil_scoped_release release;
            const auto scratch = allocate<T>(kernels.hadamard_scratch(blocks));
            kernels.sign_hadamard_pairs(from, blocks, radii.data(), frequencies, T(scale), to, scratch.get());
        },
        "X"_a.noconvert(), "signs"_a.noconvert(), "radii"_a.noconvert(), "scale"_a, "out"_a.noconvert());

    module.def(
        "butterfly",
        [&kernels](const Matrix<const T>& X, const Matrix<const T>& signs, const Matrix<const std::int64_t>& order,
                   const Cube<const T>& multipliers, const Matrix<const T>& factors, const Matrix<T>& out,
                   const Radii<T>& radii, const std::string& function, double scale, bool product) {
            const Rows<const T> from = rows_of(X);
            const Rows<const T> mixing = rows_of(signs);
            const Butterflies<T> butterflies = butterflies_of<T>(order, multipliers, factors);
            const Rows<T> to = rows_of(out);
            const Result<T> result{function_of(function), T(scale), product, to};
            const T* radius = radii_of<T>(radii, to.columns);
            require_mixing(mixing, butterflies);
            require_projection(from, butterflies, to.columns, to);
            nb::gil_scoped_release release;
            const auto scratch = allocate<T>(kernels.butterfly_scratch(butterflies));
            kernels.butterfly(from, mixing, butterflies, radius, result, scratch.get());
        },
        "X"_a.noconvert(), "signs"_a.noconvert(), "order"_a.noconvert(), "multipliers"_a.noconvert(),
        "factors"_a.noconvert(), "out"_a.noconvert(), "radii"_a.noconvert() = nb::none(),
        "function"_a = "identity", "scale"_a = 1.0, "product"_a = false);

    module.def(
        "butterfly_pairs",
        [&kernels](const Matrix<const T>& X, const Matrix<const T>& signs, const Matrix<const std::int64_t>& order,
                   const Cube<const T>& multipliers, const Matrix<const T>& factors, const Vector<const T>& radii,
                   double scale, const Matrix<T>& out) {
            const Rows<const T> from = rows_of(X);
            const Rows<const T> mixing = rows_of(signs);
            const Butterflies<T> butterflies = butterflies_of<T>(order, multipliers, factors);
            const Rows<T> to = rows_of(out);
            const auto frequencies = std::ptrdiff_t(radii.shape(0));
            require_unit_stride(radii);
            require_mixing(mixing, butterflies);
            require_projection(from, butterflies, frequencies, to);
            require_pairs(frequencies, to);
            nb::gil_scoped_release release;
            const auto scratch = allocate<T>(kernels.butterfly_scratch(butterflies));
            kernels.butterfly_pairs(from, mixing, butterflies, radii.data(), frequencies, T(scale), to, scratch.get());
        },
        "X"_a.noconvert(), "signs"_a.noconvert(), "order"_a.noconvert(), "multipliers"_a.noconvert(),
        "factors"_a.noconvert(), "radii"_a.noconvert(), "scale"_a, "out"_a.noconvert());

    module.def(
        "dense",
        [&kernels](const Matrix<const T>& X, const Matrix<const T>& weights, const Matrix<T>& out,
                   const std::string& function, double scale, bool product) {
            const Rows<const T> from = rows_of(X);
            const Rows<const T> by = rows_of(weights);
            const Rows<T> to = rows_of(out);
            const Result<T> result{function_of(function), T(scale), product, to};
            require_dense(from, by, to);
            require(by.columns == to.columns);
            nb::gil_scoped_release release;
            const auto scratch = allocate<T>(kernels.dense_scratch(by));
            kernels.dense(from, by, result, scratch.get());
        },
        "X"_a.noconvert(), "weights"_a.noconvert(), "out"_a.noconvert(), "function"_a = "identity", "scale"_a = 1.0,
        "product"_a = false);

    module.def(
        "dense_pairs",
        [&kernels](const Matrix<const T>& X, const Matrix<const T>& weights, double scale, const Matrix<T>& out) {
            const Rows<const T> from = rows_of(X);
            const Rows<const T> by = rows_of(weights);
            const Rows<T> to = rows_of(out);
            require_dense(from, by, to);
            require_pairs(by.columns, to);
            nb::gil_scoped_release release;
            const auto scratch = allocate<T>(kernels.dense_scratch(by));
            kernels.dense_pairs(from, by, T(scale), to, scratch.get());
        },
        "X"_a.noconvert(), "weights"_a.noconvert(), "scale"_a, "out"_a.noconvert());

    module.def(
        "dense_cosines",
        [&kernels](const Matrix<const T>& X, const Matrix<const T>& weights, const Vector<const T>& phases,
                   double scale, const Matrix<T>& out) {
            const Rows<const T> from = rows_of(X);
            const Rows<const T> by = rows_of(weights);
            const Rows<T> to = rows_of(out);
            require_unit_stride(phases);
            require_dense(from, by, to);
            require(by.columns == to.columns && std::ptrdiff_t(phases.shape(0)) == to.columns);
            nb::gil_scoped_release release;
            const auto scratch = allocate<T>(kernels.dense_scratch(by));
            kernels.dense_cosines(from, by, phases.data(), T(scale), to, scratch.get());
        },
        "X"_a.noconvert(), "weights"_a.noconvert(), "phases"_a.noconvert(), "scale"_a, "out"_a.noconvert());

    module.def(
        "sparse_product",
        [&kernels](const Vector<const std::int32_t>& starts, const Vector<const std::int32_t>& indices,
                   const Vector<const T>& values, const Matrix<const T>& X, const Matrix<T>& out) {
            const Rows<const T> from = rows_of(X);
            const Rows<T> to = rows_of(out);
            const SparseRows<T> A = sparse_of(starts, indices, values, to.rows, from.rows);
            require(from.columns == to.columns);
            nb::gil_scoped_release release;
            kernels.sparse_product(A, from, to);
        },
        "starts"_a.noconvert(), "indices"_a.noconvert(), "values"_a.noconvert(), "X"_a.noconvert(),
        "out"_a.noconvert());

    define_solve_local<T, T>(module, kernels, kernels.solve_local);
    // The functions are tried in this order; features of other types are an error.
    if constexpr (!std::is_same_v<T, float>) define_solve_local<T, float>(module, kernels, kernels.solve_local_single);

    module.def(
        "solve_given",
        [&kernels](const Cube<const T>& K, const Matrix<const T>& cross, const Vector<const double>& prior,
                   const Matrix<const T>& noise, const std::optional<Cube<const T>>& targets, const Matrix<T>& weights,
                   const Vector<double>& variance, const std::optional<Cube<T>>& solved,
                   const Vector<double>& jitter) {
            const auto m = std::ptrdiff_t(K.shape(0)), k = std::ptrdiff_t(K.shape(1));
            const std::ptrdiff_t t = targets ? std::ptrdiff_t(targets->shape(2)) : 0;
            require_shape(K, {m, k, k});
            require_shape(cross, {m, k});
            require_shape(prior, {m});
            require_shape(noise, {m, k});
            if (targets) require_shape(*targets, {m, k, t});
            const Solutions<T> out = solutions_of<T>(weights, variance, solved, jitter, m, k, targets.has_value(), t);
            const GivenSystems<T> given{K.data(),     cross.data(), prior.data(),
                                        noise.data(), targets ? targets->data() : nullptr, m, k, t};
            nb::gil_scoped_release release;
            const auto scratch = allocate<T>(kernels.system_scratch(k, t));
            kernels.solve_given(given, out, scratch.get());
        },
        "K"_a.noconvert(), "cross"_a.noconvert(), "prior"_a.noconvert(), "noise"_a.noconvert(),
        "targets"_a.noconvert().none(), "weights"_a.noconvert(), "variance"_a.noconvert(),
        "solved"_a.noconvert().none(), "jitter"_a.noconvert());

    module.def(
        "metric_gradient",
        [&kernels](const Matrix<const T>& rows, const Matrix<const std::int64_t>& indices,
                   const Matrix<const T>& queries, const std::string& profile, const Matrix<const T>& left,
                   const Matrix<const T>& right, const Matrix<const T>& cross, bool full,
                   const Matrix<double>& out) {
            const Neighbors<T> neighbors = neighbors_of<T>(rows, indices, queries, profile);
            const std::ptrdiff_t m = neighbors.queries.rows, k = neighbors.count, d = neighbors.rows.columns;
            for (const auto* factors : {&left, &right, &cross}) require_shape(*factors, {m, k});
            require_shape(out, {full ? d : 1, d});
            nb::gil_scoped_release release;
            const std::ptrdiff_t elements = kernels.gradient_scratch(k, d, full);
            const auto scratch = allocate<char>(elements * std::ptrdiff_t(full ? sizeof(double) : sizeof(T)));
            kernels.metric_gradient(neighbors, left.data(), right.data(), cross.data(), full, out.data(),
                                    scratch.get());
        },
        "rows"_a.noconvert(), "indices"_a.noconvert(), "queries"_a.noconvert(), "profile"_a, "left"_a.noconvert(),
        "right"_a.noconvert(), "cross"_a.noconvert(), "full"_a, "out"_a.noconvert());
}

// The arrays of positions are passed as null while they are being filled.
template <class T>
Cells<T> cells_of(const Vector<const std::int64_t>& starts, const Matrix<const double>& centers,
                  const Vector<const std::int64_t>& index, double scale) {
    require_unit_stride(starts);
    require_unit_stride(index);
    require_unit_stride(centers);
    const auto count = std::ptrdiff_t(centers.shape(0));
    require(count >= 1 && std::ptrdiff_t(starts.shape(0)) == count + 1);
    require(count == 1 || centers.stride(0) == std::ptrdiff_t(centers.shape(1)));
    const std::int64_t* start = starts.data();
    // Not by a product, which may overflow.
    require(index.shape(0) % size_t(mercer::panel_rows) == 0);
    require(start[0] == 0 && start[count] == std::int64_t(index.shape(0) / size_t(mercer::panel_rows)));
    for (std::ptrdiff_t i = 0; i < count; ++i) require(start[i] <= start[i + 1]);
    return {count,        0,       1.0,     scale,   start,   centers.data(), nullptr,
            index.data(), nullptr, nullptr, nullptr, nullptr};
}

template <class Array>
void require_contiguous(const Array& array, size_t first, size_t second) {
    require(array.shape(0) == first && array.shape(1) == second);
    require_unit_stride(array);
    require(array.size() == 0 || first == 1 || array.stride(0) == std::ptrdiff_t(second));
}

template <class T>
const std::int64_t* limits_of(const std::optional<Vector<const std::int64_t>>& limits, std::ptrdiff_t m) {
    if (!limits) return nullptr;
    require_unit_stride(*limits);
    require(std::ptrdiff_t(limits->shape(0)) == m);
    return limits->data();
}

template <class T>
void bind_search(nb::module_& module, const Kernels<T>& kernels) {
    module.def(
        "pack_rows",
        [&kernels](const Matrix<const T>& X, const Vector<const std::int64_t>& starts,
                   const Matrix<const double>& centers, const Vector<const std::int64_t>& index, double scale,
                   std::ptrdiff_t first, std::ptrdiff_t last, const Matrix<T>& rows, const Matrix<float>& panels,
                   const Vector<float>& lows, const Matrix<double>& lengths) {
            const Rows<const T> from = rows_of(X);
            const Cells<T> cells = cells_of<T>(starts, centers, index, scale);
            const size_t positions = index.shape(0), n_panels = positions / mercer::panel_rows;
            require(std::ptrdiff_t(centers.shape(1)) == from.columns);
            require(0 <= first && first <= last && last <= cells.count);
            require_contiguous(rows, positions, size_t(from.columns));
            require_contiguous(panels, n_panels, size_t(from.columns) * mercer::panel_rows);
            require_contiguous(lengths, n_panels, 2);
            require_unit_stride(lows);
            require(lows.shape(0) == positions);
            for (size_t i = 0; i < positions; ++i) require(cells.index[i] < from.rows);
            nb::gil_scoped_release release;
            kernels.pack_rows(from, cells, first, last, rows.data(), panels.data(), lows.data(), lengths.data());
        },
        "X"_a.noconvert(), "starts"_a.noconvert(), "centers"_a.noconvert(), "index"_a.noconvert(), "scale"_a, "first"_a,
        "last"_a, "rows"_a.noconvert(), "panels"_a.noconvert(), "lows"_a.noconvert(), "lengths"_a.noconvert());

    module.def(
        "nearest_rows",
        [&kernels](const Matrix<const T>& X, const Vector<const std::int64_t>& homes,
                   const Vector<const std::int64_t>& starts, const Matrix<const double>& centers,
                   const Vector<const std::int64_t>& index, double scale, const Matrix<const T>& rows,
                   const Matrix<const float>& panels, const Vector<const float>& lows,
                   const Matrix<const double>& lengths, const Vector<const double>& radii,
                   const std::optional<Vector<const std::int64_t>>& own,
                   const std::optional<Vector<const std::int64_t>>& before, std::ptrdiff_t first_visits, double reach,
                   const Matrix<std::int64_t>& indices, const Matrix<double>& squares) {
            const Rows<const T> from = rows_of(X);
            Cells<T> cells = cells_of<T>(starts, centers, index, scale);
            const size_t positions = index.shape(0), n_panels = positions / mercer::panel_rows;
            const size_t d = size_t(from.columns);
            require(centers.shape(1) == d);
            require_contiguous(rows, positions, d);
            require_contiguous(panels, n_panels, d * mercer::panel_rows);
            require_contiguous(lengths, n_panels, 2);
            require_unit_stride(lows);
            require_unit_stride(radii);
            require_unit_stride(homes);
            require(lows.shape(0) == positions && std::ptrdiff_t(radii.shape(0)) == cells.count);
            require(std::ptrdiff_t(homes.shape(0)) == from.rows);
            for (std::ptrdiff_t i = 0; i < from.rows; ++i)
                require(0 <= homes.data()[i] && homes.data()[i] < cells.count);
            cells.first_visits = first_visits;
            cells.reach = reach;
            cells.radii = radii.data();
            cells.rows = rows.data();
            cells.panels = panels.data();
            cells.lows = lows.data();
            cells.lengths = lengths.data();
            const Rows<std::int64_t> to = rows_of(indices);
            const Rows<double> values = rows_of(squares);
            require(to.rows == from.rows && values.rows == from.rows && to.columns == values.columns);
            require(to.columns >= 1);
            const Limits limits{to.columns, limits_of<T>(own, from.rows), limits_of<T>(before, from.rows)};
            nb::gil_scoped_release release;
            const auto scratch =
                allocate<char>(kernels.nearest_scratch(from.rows, from.columns, cells.count, limits.count));
            kernels.nearest_rows(from, homes.data(), cells, limits, to, values, scratch.get());
        },
        "X"_a.noconvert(), "homes"_a.noconvert(), "starts"_a.noconvert(), "centers"_a.noconvert(),
        "index"_a.noconvert(), "scale"_a, "rows"_a.noconvert(), "panels"_a.noconvert(), "lows"_a.noconvert(),
        "lengths"_a.noconvert(), "radii"_a.noconvert(), "own"_a.noconvert().none(), "before"_a.noconvert().none(),
        "first_visits"_a, "reach"_a, "indices"_a.noconvert(), "squares"_a.noconvert());
}

void bind_set(nb::module_& module, const char* name, const KernelSet& kernels) {
    nb::module_ submodule = module.def_submodule(name);
    bind(submodule, kernels.float32);
    bind(submodule, kernels.float64);
    bind_search(submodule, kernels.float32);
    bind_search(submodule, kernels.float64);
}

std::vector<std::string> supported() {
    std::vector<std::string> sets;
#ifdef MERCER_X86_KERNELS
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
    if (avx512) sets.emplace_back("avx512");
    if (avx2) sets.emplace_back("avx2");
#endif
    sets.emplace_back("baseline");
    return sets;
}

}  // namespace

NB_MODULE(_native, module) {
    module.def("supported", &supported, "Kernel sets that this processor can run, best first.");
    bind_set(module, "baseline", mercer::baseline_kernels);
#ifdef MERCER_X86_KERNELS
    bind_set(module, "avx2", mercer::avx2_kernels);
    bind_set(module, "avx512", mercer::avx512_kernels);
#endif
}
