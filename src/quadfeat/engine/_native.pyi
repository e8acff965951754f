import numpy
from numpy.typing import NDArray

def cores() -> list[str]: ...
def largest_magnitude_float32(X: object, core: str) -> float: ...
def largest_magnitude_float64(X: object, core: str) -> float: ...
def condition(
    *,
    profile: str,
    shape: float,
    alpha: float,
    points: object,
    targets: object,
    weights: object,
    queries: object,
    factors: object,
    neighbors: object,
    mean: object,
    variance: object,
    squares: object,
    jitter: object,
    n_threads: int,
    core: str,
) -> None: ...
def pull_back(
    *,
    profile: str,
    shape: float,
    alpha: float,
    points: object,
    targets: object,
    weights: object,
    queries: object,
    factors: object,
    neighbors: object,
    by_mean: object,
    by_variance: object,
    by_logarithms: object,
    n_threads: int,
    core: str,
) -> None: ...

class MapFloat32:
    def __init__(
        self,
        *,
        structure: str,
        phi: str,
        simplex: bool,
        reflected: bool,
        last_is_single: bool,
        d: int,
        size: int,
        n_blocks: int,
        rounds: int,
        matrix: NDArray[numpy.float32],
        cosines: NDArray[numpy.float64],
        sines: NDArray[numpy.float64],
        diagonals: NDArray[numpy.float32],
        permutations: NDArray[numpy.int32],
        below: NDArray[numpy.float32],
        on: NDArray[numpy.float32],
        factors: NDArray[numpy.float32],
        radii: NDArray[numpy.float32],
        amplitudes: NDArray[numpy.float32],
        phase: float,
        has_origin: bool,
        origin: float,
    ) -> None: ...
    def transform(
        self, X: object, out: object, n_threads: int, core: str, limit: float = float("inf")
    ) -> bool: ...
    def multiply(
        self,
        X: object,
        V: object,
        out: object,
        n_threads: int,
        core: str,
        limit: float = float("inf"),
    ) -> bool: ...
    def normal_multiply(
        self,
        X: object,
        weights: object,
        V: object,
        out: object,
        n_threads: int,
        core: str,
        limit: float = float("inf"),
    ) -> bool: ...
    def transposed_multiply(
        self,
        X: object,
        U: object,
        out: object,
        n_threads: int,
        core: str,
        limit: float = float("inf"),
    ) -> bool: ...

class MapFloat64:
    def __init__(
        self,
        *,
        structure: str,
        phi: str,
        simplex: bool,
        reflected: bool,
        last_is_single: bool,
        d: int,
        size: int,
        n_blocks: int,
        rounds: int,
        matrix: NDArray[numpy.float64],
        cosines: NDArray[numpy.float64],
        sines: NDArray[numpy.float64],
        diagonals: NDArray[numpy.float64],
        permutations: NDArray[numpy.int32],
        below: NDArray[numpy.float64],
        on: NDArray[numpy.float64],
        factors: NDArray[numpy.float64],
        radii: NDArray[numpy.float64],
        amplitudes: NDArray[numpy.float64],
        phase: float,
        has_origin: bool,
        origin: float,
    ) -> None: ...
    def transform(
        self, X: object, out: object, n_threads: int, core: str, limit: float = float("inf")
    ) -> bool: ...
    def multiply(
        self,
        X: object,
        V: object,
        out: object,
        n_threads: int,
        core: str,
        limit: float = float("inf"),
    ) -> bool: ...
    def normal_multiply(
        self,
        X: object,
        weights: object,
        V: object,
        out: object,
        n_threads: int,
        core: str,
        limit: float = float("inf"),
    ) -> bool: ...
    def transposed_multiply(
        self,
        X: object,
        U: object,
        out: object,
        n_threads: int,
        core: str,
        limit: float = float("inf"),
    ) -> bool: ...
