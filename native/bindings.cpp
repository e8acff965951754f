// Python bindings. This is the only file that includes Python.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core.hpp"
#include "processor.hpp"
#include "tangents.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace quadfeat {
namespace {

std::vector<const Core*> detect_cores() {
    std::vector<const Core*> cores;
#ifdef QUADFEAT_X86
    if (has_x86_64_v4()) cores.push_back(&v4::core);
    if (has_x86_64_v3()) cores.push_back(&v3::core);
#endif
    cores.push_back(&baseline::core);
    return cores;
}

// Return the cores that this machine can run, fastest first. The result is cached, because cpuid is
// slow in virtual machines.
const std::vector<const Core*>& supported_cores() {
    static const std::vector<const Core*> cores = detect_cores();
    return cores;
}

const Core& find_core(const std::string& name) {
    for (const Core* core : supported_cores())
        if (name == core->name) return *core;
    throw nb::value_error(("this machine can run no core named '" + name + "'").c_str());
}

template <class Enum>
Enum choose(const std::string& name, std::initializer_list<std::pair<const char*, Enum>> choices) {
    for (const auto& [choice, value] : choices)
        if (name == choice) return value;
    throw nb::value_error(("unknown name '" + name + "'").c_str());
}

// Multiply two sizes of an array; throw if the product overflows.
std::size_t times(std::size_t a, std::size_t b) {
    std::size_t product;
    if (__builtin_mul_overflow(a, b, &product))
        throw nb::value_error("the shape of the map is not consistent: it is too large for memory");
    return product;
}

// Release the interpreter lock of the calling thread, so that other threads run meanwhile.
class Unlocked {
public:
    Unlocked() : state_(PyEval_SaveThread()) {}
    ~Unlocked() { lock(); }
    Unlocked(const Unlocked&) = delete;
    Unlocked& operator=(const Unlocked&) = delete;

    // Let the interpreter handle signals. Return true if this raised an exception.
    bool interrupted() {
        lock();
        const bool raised = PyErr_CheckSignals() != 0;
        state_ = PyEval_SaveThread();
        return raised;
    }

private:
    // Before Python 3.14, the stack of a daemon thread that requests the lock during interpreter
    // exit is unwound, and the first noexcept frame aborts the process. So let the thread sleep
    // until the process ends, as later versions of Python do.
    void lock() noexcept {
        try {
            PyEval_RestoreThread(state_);
        } catch (...) {
            for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
        }
    }

    PyThreadState* state_;
};

template <class T>
using Values = nb::ndarray<const T, nb::c_contig, nb::device::cpu>;

template <class T>
std::vector<T> copy(const Values<T>& values, std::size_t expected, const char* name) {
    if (values.size() != expected)
        throw nb::value_error((std::string(name) + " has " + std::to_string(values.size()) +
                               " entries, not " + std::to_string(expected))
                                  .c_str());
    std::vector<T> result(expected);
    const void* const from = values.data();  // may not be aligned to T
    if (expected) std::memcpy(result.data(), from, expected * sizeof(T));
    return result;
}

// Return the rows of a matrix in groups, with each group stored column by column.
template <class T>
std::vector<T> grouped(const T* matrix, std::size_t rows, std::size_t columns) {
    const std::size_t groups = (rows + dense_group - 1) / dense_group;
    std::vector<T> result(groups * columns * dense_group);
    for (std::size_t row = 0; row < rows; ++row)
        for (std::size_t column = 0; column < columns; ++column)
            result[(row / dense_group * columns + column) * dense_group + row % dense_group] =
                matrix[row * columns + column];
    return result;
}

// A strided matrix from the buffer protocol. Unlike DLPack, it allows any byte strides.
template <class T, class Byte>
class Buffer {
public:
    Buffer(nb::handle object, const char* name) {
        const int flags = PyBUF_STRIDES | PyBUF_FORMAT |
                          (std::is_const_v<Byte> ? PyBUF_SIMPLE : PyBUF_WRITABLE);
        if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0) throw nb::python_error();
        const std::string format = view_.format ? view_.format : "";
        if (view_.ndim != 2 || view_.itemsize != sizeof(T) || !has_type(format)) {
            PyBuffer_Release(&view_);
            throw nb::value_error((std::string(name) + " is not a matrix of " + type).c_str());
        }
    }
    ~Buffer() { PyBuffer_Release(&view_); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    Matrix<Byte> matrix() const {
        return {static_cast<Byte*>(view_.buf), static_cast<std::size_t>(view_.shape[0]),
                static_cast<std::size_t>(view_.shape[1]), view_.strides[0], view_.strides[1]};
    }

private:
    static constexpr bool is_integer = std::is_same_v<T, std::int64_t>;
    static constexpr const char* type =
        is_integer ? "int64" : std::is_same_v<T, float> ? "float32" : "float64";

    // Which letter means 64 bits depends on the system, so check the size as well.
    static bool has_type(std::string format) {
        if (!format.empty() && (format[0] == '=' || format[0] == '@')) format.erase(0, 1);
        if (is_integer) return format == "l" || format == "q";
        return format == (std::is_same_v<T, float> ? "f" : "d");
    }

    Py_buffer view_{};
};

// Run work(core, should_stop) without the interpreter lock, except to handle signals.
template <class Work>
void run(std::size_t n_threads, const std::string& core_name, const Work& work) {
    if (n_threads == 0) throw nb::value_error("n_threads is 0: pass a positive number");
    const Core& core = find_core(core_name);
    bool interrupted = false, finished;
    {
        Unlocked unlocked;
        const ShouldStop should_stop = [&] { return interrupted = unlocked.interrupted(); };
        finished = work(core, should_stop);
    }
    if (interrupted) throw nb::python_error();
    if (!finished) throw std::runtime_error("the computation was stopped");
}

template <class Byte>
bool has_shape(const Matrix<Byte>& matrix, std::size_t rows, std::size_t columns) {
    return matrix.rows == rows && matrix.columns == columns;
}

// A fitted map that owns copies of its parts. The constructor checks them, so later calls need not.
template <class T>
class Map {
public:
    Map(const std::string& structure, const std::string& phi, bool simplex, bool reflected,
        bool last_is_single, std::size_t d, std::size_t size, std::size_t n_blocks,
        std::size_t rounds, const Values<T>& matrix, const Values<double>& cosines,
        const Values<double>& sines, const Values<T>& diagonals,
        const Values<std::int32_t>& permutations, const Values<T>& below, const Values<T>& on,
        const Values<T>& factors, const Values<T>& radii, const Values<T>& amplitudes, T phase,
        bool has_origin, T origin) {
        plan_.structure = choose<Structure>(structure, {{"given", Structure::given},
                                                        {"dense", Structure::dense},
                                                        {"butterfly", Structure::butterfly},
                                                        {"hadamard", Structure::hadamard}});
        plan_.phi = choose<Phi>(phi, {{"fourier", Phi::fourier},
                                      {"step", Phi::step},
                                      {"ramp", Phi::ramp},
                                      {"squared_ramp", Phi::squared_ramp},
                                      {"identity", Phi::identity}});
        plan_.simplex = simplex;
        plan_.reflected = reflected;
        plan_.last_is_single = last_is_single;
        plan_.d = d;
        plan_.size = size;
        plan_.n_blocks = n_blocks;
        plan_.rounds = rounds;
        plan_.n_nodes = radii.size();
        plan_.phase = phase;
        plan_.has_origin = has_origin;
        plan_.origin = origin;

        const bool is_butterfly = plan_.structure == Structure::butterfly;
        const bool is_hadamard = plan_.structure == Structure::hadamard;
        const bool is_dense = plan_.structure == Structure::dense;
        const bool has_pairs = plan_.phi == Phi::fourier || reflected;
        if ((last_is_single && !has_pairs) ||
            (reflected && (plan_.phi == Phi::identity || plan_.phi == Phi::fourier)))
            throw nb::value_error("the columns of a node are not consistent");
        factors_ = copy(factors, d, "factors");  // first, since it proves that d fits in memory
        const bool has_size = is_hadamard ? size >= d && (size & (size - 1)) == 0 : size == d;
        if (d == 0 || plan_.n_nodes == 0 || !has_size)
            throw nb::value_error("the shape of the map is not consistent");
        // The number of blocks must be just enough for the nodes. Each block has its own matrix.
        const std::size_t needed = (plan_.n_nodes - 1) / (size + simplex) + 1;
        const bool has_nodes = is_butterfly || is_hadamard ? rounds > 0 && n_blocks == needed
                                                           : is_dense || plan_.n_nodes <= d;
        if (!has_nodes) throw nb::value_error("the shape of the map is not consistent");

        const std::size_t all = is_butterfly || is_hadamard ? times(n_blocks, rounds) : 0;
        matrix_ = copy(matrix, is_dense ? times(plan_.n_nodes, d) : 0, "matrix");
        if (is_dense) matrix_ = grouped(matrix_.data(), plan_.n_nodes, d);
        const std::size_t angles = is_butterfly ? times(all, size - 1) : 0;
        const std::vector<double> c = copy(cosines, angles, "cosines");
        const std::vector<double> s = copy(sines, angles, "sines");
        for (std::size_t first = 0; first < angles; first += size - 1)
            append_round<T>(c.data() + first, s.data() + first, size, tangents_);
        diagonals_ = copy(diagonals, is_hadamard ? times(all, size) : 0, "diagonals");
        const bool permuted = is_butterfly || (is_hadamard && permutations.size());
        permutations_ = copy(permutations, permuted ? times(all, size) : 0, "permutations");
        for (const std::int32_t index : permutations_)
            if (index < 0 || static_cast<std::size_t>(index) >= size)
                throw nb::value_error("permutations has an entry out of range");
        radii_ = copy(radii, plan_.n_nodes, "radii");
        amplitudes_ = copy(amplitudes, plan_.n_nodes, "amplitudes");
        below_ = copy(below, simplex ? size : 0, "below");
        on_ = copy(on, simplex ? size : 0, "on");

        plan_.matrix = matrix_.data();
        plan_.tangents = tangents_.data();
        plan_.n_tangents = all ? tangents_.size() / all : 0;
        plan_.diagonals = diagonals_.data();
        plan_.permutations = permuted ? permutations_.data() : nullptr;
        plan_.below = below_.data();
        plan_.on = on_.data();
        plan_.factors = factors_.data();
        plan_.radii = radii_.data();
        plan_.amplitudes = amplitudes_.data();
    }
    Map(const Map&) = delete;
    Map& operator=(const Map&) = delete;

    // This and the products return whether all entries of X are within the limit; see Bounds.
    bool transform(nb::handle X, nb::handle out, std::size_t n_threads,
                   const std::string& core_name, double limit) const {
        const Buffer<T, const char> from(X, "X");
        const Buffer<T, char> to(out, "out");
        const Matrix<const char> rows = from.matrix();
        const Matrix<char> features = to.matrix();
        check_shape(rows.columns == plan_.d && has_shape(features, rows.rows, plan_.n_columns()),
                    "X and out");
        return run_within(limit, n_threads, core_name, [&](const Functions<T>& functions,
                                                           const auto&... rest) {
            return functions.transform(plan_, rows, features, rest...);
        });
    }

    bool multiply(nb::handle X, nb::handle V, nb::handle out, std::size_t n_threads,
                  const std::string& core_name, double limit) const {
        const Buffer<T, const char> from(X, "X"), factors(V, "V");
        const Buffer<T, char> to(out, "out");
        const Matrix<const char> rows = from.matrix(), right = factors.matrix();
        const Matrix<char> product = to.matrix();
        check_shape(rows.columns == plan_.d && right.rows == plan_.n_columns() &&
                        has_shape(product, rows.rows, right.columns),
                    "X, V and out");
        check_outputs(right.columns);
        return run_within(limit, n_threads, core_name, [&](const Functions<T>& functions,
                                                           const auto&... rest) {
            return functions.multiply(plan_, rows, right, product, rest...);
        });
    }

    bool normal_multiply(nb::handle X, nb::handle weights, nb::handle V, nb::handle out,
                         std::size_t n_threads, const std::string& core_name, double limit) const {
        const Buffer<T, const char> from(X, "X"), middle(weights, "weights"), factors(V, "V");
        const Buffer<double, char> to(out, "out");
        const Matrix<const char> rows = from.matrix(), diagonal = middle.matrix(),
                                 right = factors.matrix();
        const Matrix<char> sum = to.matrix();
        check_shape(rows.columns == plan_.d && has_shape(diagonal, rows.rows, 1) &&
                        right.rows == plan_.n_columns() &&
                        has_shape(sum, plan_.n_columns(), right.columns),
                    "X, weights, V and out");
        check_outputs(right.columns);
        return run_within(limit, n_threads, core_name, [&](const Functions<T>& functions,
                                                           const auto&... rest) {
            return functions.normal_multiply(plan_, rows, diagonal, right, sum, rest...);
        });
    }

    bool transposed_multiply(nb::handle X, nb::handle U, nb::handle out, std::size_t n_threads,
                             const std::string& core_name, double limit) const {
        const Buffer<T, const char> from(X, "X"), factors(U, "U");
        const Buffer<double, char> to(out, "out");
        const Matrix<const char> rows = from.matrix(), right = factors.matrix();
        const Matrix<char> sum = to.matrix();
        check_shape(rows.columns == plan_.d && right.rows == rows.rows &&
                        has_shape(sum, plan_.n_columns(), right.columns),
                    "X, U and out");
        check_outputs(right.columns);
        return run_within(limit, n_threads, core_name, [&](const Functions<T>& functions,
                                                           const auto&... rest) {
            return functions.transposed_multiply(plan_, rows, right, sum, rest...);
        });
    }

private:
    // Run a function of the core with a limit. Return whether all entries of X are within it.
    template <class Work>
    static bool run_within(double limit, std::size_t n_threads, const std::string& core_name,
                           const Work& work) {
        if (!(limit >= 0)) throw nb::value_error("limit is not valid: pass a number >= 0");
        constexpr double largest = std::numeric_limits<T>::max();
        const bool is_finite = limit < std::numeric_limits<double>::infinity();
        std::atomic<bool> beyond{false};
        const Bounds<T> bounds{is_finite ? static_cast<T>(limit < largest ? limit : largest)
                                         : std::numeric_limits<T>::infinity(),
                               beyond};
        run(n_threads, core_name, [&](const Core& core, const ShouldStop& should_stop) {
            return work(core.on<T>(), bounds, n_threads, should_stop);
        });
        return !beyond;
    }

    static void check_shape(bool fits, const std::string& names) {
        if (!fits) throw nb::value_error((names + " do not have the shape of the map").c_str());
    }

    // Outputs may be a view that repeats a few numbers, but the work arrays for them need memory.
    void check_outputs(std::size_t n_outputs) const {
        constexpr std::size_t most_entries = std::size_t(1) << 48;
        if (n_outputs > most_entries / (plan_.n_columns() + 1024))  // padding adds less than 1024
            throw nb::value_error(("products have " + std::to_string(n_outputs) +
                                   " columns, which is too large for memory")
                                      .c_str());
    }

    Plan<T> plan_{};
    std::vector<T> matrix_, tangents_, diagonals_, below_, on_, factors_, radii_, amplitudes_;
    std::vector<std::int32_t> permutations_;
};

// Views of the arguments that describe queries and the rows near them.
class HoodBuffers {
public:
    HoodBuffers(const std::string& profile, double shape, double alpha, nb::handle points,
                nb::handle targets, nb::handle weights, nb::handle queries, nb::handle factors,
                nb::handle neighbors)
        : points_(points, "points"),
          targets_(targets, "targets"),
          weights_(weights, "weights"),
          queries_(queries, "queries"),
          factors_(factors, "factors"),
          neighbors_(neighbors, "neighbors"),
          hoods_{{choose<Profile>(profile, {{"gaussian", Profile::gaussian},
                                            {"matern12", Profile::matern12},
                                            {"matern32", Profile::matern32},
                                            {"matern52", Profile::matern52},
                                            {"rational_quadratic", Profile::rational_quadratic}}),
                  shape},
                 alpha,
                 points_.matrix(),
                 targets_.matrix(),
                 weights_.matrix(),
                 queries_.matrix(),
                 factors_.matrix(),
                 neighbors_.matrix()} {
        const std::size_t n_rows = hoods_.points.rows, d = hoods_.points.columns;
        const std::size_t k = hoods_.neighbors.columns, n_queries = hoods_.neighbors.rows;
        if (!has_shape(hoods_.targets, n_rows, hoods_.targets.columns) ||
            !has_shape(hoods_.weights, n_rows, 1) || !has_shape(hoods_.queries, n_queries, d) ||
            !has_shape(hoods_.factors, 1, d))
            throw nb::value_error("the shapes of points and queries are not consistent");
        if (d == 0 || k == 0 || hoods_.targets.columns == 0)
            throw nb::value_error("points, targets and neighbors need at least one column each");
        // Columns may be a view that repeats a few numbers, but the work arrays need memory.
        constexpr std::size_t most = std::size_t(1) << 20;
        if (k > largest_hood || d > most || hoods_.targets.columns > most)
            throw nb::value_error("points, targets or neighbors have too many columns");
    }

    const Hoods& hoods() const { return hoods_; }

private:
    Buffer<double, const char> points_, targets_, weights_, queries_, factors_;
    Buffer<std::int64_t, const char> neighbors_;
    Hoods hoods_;
};

void condition(const std::string& profile, double shape, double alpha, nb::handle points,
               nb::handle targets, nb::handle weights, nb::handle queries, nb::handle factors,
               nb::handle neighbors, nb::handle mean, nb::handle variance,
               nb::handle squares, nb::handle jitter, std::size_t n_threads,
               const std::string& core_name) {
    const HoodBuffers buffers(profile, shape, alpha, points, targets, weights, queries, factors,
                              neighbors);
    const Hoods& hoods = buffers.hoods();
    const Buffer<double, char> means(mean, "mean"), variances(variance, "variance"),
        sums(squares, "squares"), jitters(jitter, "jitter");
    const Conditionals out{means.matrix(), variances.matrix(), sums.matrix(), jitters.matrix()};
    const std::size_t n_queries = hoods.neighbors.rows;
    if (!has_shape(out.mean, n_queries, hoods.targets.columns) ||
        !has_shape(out.squares, n_queries, hoods.targets.columns) ||
        !has_shape(out.variance, n_queries, 1) || !has_shape(out.jitter, n_queries, 1))
        throw nb::value_error("mean, variance, squares and jitter do not have the shape of the result");
    run(n_threads, core_name, [&](const Core& core, const ShouldStop& should_stop) {
        return core.condition(hoods, out, n_threads, should_stop);
    });
}

void pull_back(const std::string& profile, double shape, double alpha, nb::handle points,
               nb::handle targets, nb::handle weights, nb::handle queries, nb::handle factors,
               nb::handle neighbors, nb::handle by_mean, nb::handle by_variance,
               nb::handle by_logarithms, std::size_t n_threads, const std::string& core_name) {
    const HoodBuffers buffers(profile, shape, alpha, points, targets, weights, queries, factors,
                              neighbors);
    const Hoods& hoods = buffers.hoods();
    const Buffer<double, const char> means(by_mean, "by_mean"),
        variances(by_variance, "by_variance");
    const Buffer<double, char> logarithms(by_logarithms, "by_logarithms");
    const Derivatives derivatives{means.matrix(), variances.matrix(), logarithms.matrix()};
    const std::size_t n_queries = hoods.neighbors.rows;
    if (!has_shape(derivatives.by_mean, n_queries, hoods.targets.columns) ||
        !has_shape(derivatives.by_variance, n_queries, 1) ||
        !has_shape(derivatives.by_logarithms, n_queries, hoods.points.columns + 1))
        throw nb::value_error("the derivatives do not have the shape of the queries");
    run(n_threads, core_name, [&](const Core& core, const ShouldStop& should_stop) {
        return core.pull_back(hoods, derivatives, n_threads, should_stop);
    });
}

template <class T>
double largest_magnitude(nb::handle X, const std::string& core_name) {
    const Buffer<T, const char> from(X, "X");
    const Core& core = find_core(core_name);
    Unlocked unlocked;
    return core.on<T>().largest_magnitude(from.matrix());
}

template <class T>
void bind_map(nb::module_& module, const char* name) {
    constexpr double no_limit = std::numeric_limits<double>::infinity();
    nb::class_<Map<T>>(module, name)
        .def(nb::init<const std::string&, const std::string&, bool, bool, bool, std::size_t,
                      std::size_t, std::size_t, std::size_t, const Values<T>&, const Values<double>&,
                      const Values<double>&, const Values<T>&, const Values<std::int32_t>&,
                      const Values<T>&, const Values<T>&, const Values<T>&, const Values<T>&,
                      const Values<T>&, T, bool, T>(),
             nb::kw_only(), "structure"_a, "phi"_a, "simplex"_a, "reflected"_a, "last_is_single"_a,
             "d"_a, "size"_a, "n_blocks"_a, "rounds"_a, "matrix"_a, "cosines"_a, "sines"_a,
             "diagonals"_a, "permutations"_a, "below"_a, "on"_a, "factors"_a, "radii"_a,
             "amplitudes"_a, "phase"_a, "has_origin"_a, "origin"_a)
        .def("transform", &Map<T>::transform, "X"_a, "out"_a, "n_threads"_a, "core"_a,
             "limit"_a = no_limit)
        .def("multiply", &Map<T>::multiply, "X"_a, "V"_a, "out"_a, "n_threads"_a, "core"_a,
             "limit"_a = no_limit)
        .def("normal_multiply", &Map<T>::normal_multiply, "X"_a, "weights"_a, "V"_a, "out"_a,
             "n_threads"_a, "core"_a, "limit"_a = no_limit)
        .def("transposed_multiply", &Map<T>::transposed_multiply, "X"_a, "U"_a, "out"_a,
             "n_threads"_a, "core"_a, "limit"_a = no_limit);
}

}  // namespace

NB_MODULE(_native, module) {
    module.doc() = "Compute feature maps in one pass over the rows.";
    // Maps that are alive when the interpreter exits belong to daemon threads or to globals of
    // other modules. They are not leaks: a map is freed with the last reference to it.
    nb::set_leak_warnings(false);
    module.def(
        "cores",
        [] {
            std::vector<std::string> names;
            for (const Core* core : supported_cores()) names.emplace_back(core->name);
            return names;
        },
        "Return the names of the cores that this machine can run, fastest first.");
    module.def("largest_magnitude_float32", &largest_magnitude<float>, "X"_a, "core"_a,
               "Return the largest magnitude in X; inf or NaN if an entry is not finite.");
    module.def("largest_magnitude_float64", &largest_magnitude<double>, "X"_a, "core"_a,
               "Return the largest magnitude in X; inf or NaN if an entry is not finite.");
    module.def("condition", &condition, nb::kw_only(), "profile"_a, "shape"_a, "alpha"_a, "points"_a,
               "targets"_a, "weights"_a, "queries"_a, "factors"_a, "neighbors"_a, "mean"_a,
               "variance"_a, "squares"_a, "jitter"_a, "n_threads"_a, "core"_a,
               "Write the distributions at queries given the rows near them.");
    module.def("pull_back", &pull_back, nb::kw_only(), "profile"_a, "shape"_a, "alpha"_a, "points"_a,
               "targets"_a, "weights"_a, "queries"_a, "factors"_a, "neighbors"_a, "by_mean"_a,
               "by_variance"_a, "by_logarithms"_a, "n_threads"_a, "core"_a,
               "Write the gradient in the logarithms of the factors and of alpha, given the derivatives "
               "with respect to the distributions.");
    bind_map<float>(module, "MapFloat32");
    bind_map<double>(module, "MapFloat64");
}

}  // namespace quadfeat
