// Python binding of the kernel sets: one submodule for each, with the same functions.
#include <cstddef>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "kernels.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using mercer::Kernels;
using mercer::KernelSet;
using mercer::Rows;
using mercer::SignBlocks;

template <class T>
using Vector = nb::ndarray<T, nb::ndim<1>, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<T, nb::ndim<2>, nb::device::cpu>;
template <class T>
using Cube = nb::ndarray<T, nb::ndim<3>, nb::device::cpu>;

// The Python layer explains what is wrong; this only keeps a wrong call out of foreign memory.
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
void require_projection(Rows<const T> X, SignBlocks<T> signs, std::ptrdiff_t frequencies, Rows<T> out) {
    require(X.rows == out.rows && X.columns <= signs.width);
    require((signs.blocks - 1) * signs.width < frequencies && frequencies <= signs.blocks * signs.width);
}

template <class T>
void require_pairs(std::ptrdiff_t frequencies, Rows<T> out) {
    require(frequencies <= out.columns && out.columns <= 2 * frequencies);
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
        [&kernels](const Matrix<const T>& X, const Cube<const T>& signs, const Matrix<T>& out) {
            const Rows<const T> from = rows_of(X);
            const SignBlocks<T> blocks = signs_of<T>(signs);
            const Rows<T> to = rows_of(out);
            require_projection(from, blocks, to.columns, to);
            nb::gil_scoped_release release;
            const auto scratch = allocate<T>(kernels.hadamard_scratch(blocks));
            kernels.sign_hadamard(from, blocks, to, scratch.get());
        },
        "X"_a.noconvert(), "signs"_a.noconvert(), "out"_a.noconvert());

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
}

void bind_set(nb::module_& module, const char* name, const KernelSet& kernels) {
    nb::module_ submodule = module.def_submodule(name);
    bind(submodule, kernels.float32);
    bind(submodule, kernels.float64);
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
