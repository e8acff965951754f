from typing import Any

from numpy.typing import NDArray

def cores() -> list[str]: ...
def largest_magnitude_float32(X: Any, core: str) -> float: ...
def largest_magnitude_float64(X: Any, core: str) -> float: ...

class _Map:
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
        matrix: NDArray[Any],
        cosines: NDArray[Any],
        sines: NDArray[Any],
        diagonals: NDArray[Any],
        permutations: NDArray[Any],
        below: NDArray[Any],
        on: NDArray[Any],
        factors: NDArray[Any],
        radii: NDArray[Any],
        amplitudes: NDArray[Any],
        phase: float,
        has_origin: bool,
        origin: float,
    ) -> None: ...
    def transform(self, X: Any, out: Any, n_threads: int, core: str) -> None: ...
    def multiply(self, X: Any, V: Any, out: Any, n_threads: int, core: str) -> None: ...
    def normal_multiply(
        self, X: Any, weights: Any, V: Any, out: Any, n_threads: int, core: str
    ) -> None: ...
    def transposed_multiply(self, X: Any, U: Any, out: Any, n_threads: int, core: str) -> None: ...

class MapFloat32(_Map): ...
class MapFloat64(_Map): ...
