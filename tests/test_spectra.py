"""Compare distributions of frequencies with SciPy and numerical integration."""

import numpy as np
import pytest
from scipy import integrate, special, stats

from quadfeat.kernels import Gaussian, Laplacian, Matern, RationalQuadratic
from quadfeat.kernels.spectra import (
    LONGEST_FREQUENCY,
    CauchyProduct,
    GammaMixtureSpectrum,
    NormalSpectrum,
    StudentSpectrum,
)

ISOTROPIC = [NormalSpectrum(), StudentSpectrum(3.5), GammaMixtureSpectrum(2.5)]
N = 20000


def density(spectrum, d):
    """Return the density of rho from the densities of its parts."""
    if isinstance(spectrum, NormalSpectrum):
        return stats.chi(d).pdf
    if isinstance(spectrum, StudentSpectrum):  # rho^2 / d ~ F(d, 2 nu)
        return lambda r: stats.f(d, 2 * spectrum.nu).pdf(r**2 / d) * 2 * r / d
    # rho^2 = (2 / alpha) G(a) G(b). A product of two gamma variables has a Bessel density.
    a, b = spectrum.alpha, d / 2

    def product(r):
        x = r**2 * a / 2
        bessel = special.kv(a - b, 2 * np.sqrt(x))
        pdf = 2 * x ** ((a + b) / 2 - 1) * bessel / (special.gamma(a) * special.gamma(b))
        return pdf * r * a

    return product


@pytest.mark.parametrize("spectrum", ISOTROPIC, ids=repr)
@pytest.mark.parametrize("d", [1, 3, 10])
def test_moments_agree_with_the_density(spectrum, d):
    law = density(spectrum, d)
    for t in (-0.25, 0.0, 0.5, 1.0, 2.0):
        numeric = integrate.quad(lambda r, t=t: r ** (2 * t) * law(r), 0, np.inf, limit=400)[0]
        assert spectrum.moment(d, t) == pytest.approx(numeric, rel=1e-5)


@pytest.mark.parametrize("spectrum", ISOTROPIC, ids=repr)
@pytest.mark.parametrize("tilt", [0.0, 0.4, 1.0])
def test_radii_have_the_tilted_distribution(spectrum, tilt):
    d = 5
    radii = spectrum.radii(np.random.default_rng(0).random((N, spectrum.n_radial)), d, tilt)
    law, moment = density(spectrum, d), spectrum.moment(d, tilt)
    grid = np.linspace(1e-6, 60, 4001)
    tilted = grid ** (2 * tilt) * law(grid) / moment
    cdf = integrate.cumulative_simpson(tilted, x=grid, initial=0)
    assert stats.kstest(radii, lambda r: np.interp(r, grid, cdf)).pvalue > 1e-3


@pytest.mark.parametrize("spectrum", ISOTROPIC, ids=repr)
def test_frequencies_have_the_radial_distribution_and_uniform_directions(spectrum):
    d = 4
    uniforms = np.random.default_rng(0).random((N, spectrum.n_uniforms(d)))
    w = spectrum.frequencies(uniforms, d)
    radii = spectrum.radii(np.random.default_rng(1).random((N, spectrum.n_radial)), d)
    lengths = np.linalg.norm(w, axis=1)
    assert stats.ks_2samp(lengths, radii).pvalue > 1e-3
    law = stats.beta(0.5, (d - 1) / 2)
    assert stats.kstest((w[:, 2] / lengths) ** 2, law.cdf).pvalue > 1e-3


def test_cauchy_product():
    w = CauchyProduct().frequencies(np.random.default_rng(0).random((N, 2)), 2)
    assert stats.kstest(w[:, 0], stats.cauchy.cdf).pvalue > 1e-3
    assert abs(stats.spearmanr(w).statistic) < 4 / np.sqrt(N)


@pytest.mark.parametrize(
    ("spectrum", "d", "t"),
    [
        (NormalSpectrum(), 2, -1.0),
        (StudentSpectrum(1.0), 5, 1.0),
        (StudentSpectrum(0.5), 5, 0.5),
        (GammaMixtureSpectrum(1.0), 5, -1.0),
    ],
    ids=str,
)
def test_a_moment_that_diverges_is_infinite(spectrum, d, t):
    assert spectrum.moment(d, t) == np.inf


@pytest.mark.parametrize(
    "kernel",
    [Gaussian(), Laplacian(), Matern(0.5), Matern(0.01), RationalQuadratic(0.01)],
    ids=repr,
)
def test_the_ends_of_the_unit_interval_stay_finite(kernel):
    spectrum = kernel.spectrum
    for end in (0.0, 1.0):
        w = spectrum.frequencies(np.full((1, spectrum.n_uniforms(3)), end), 3)
        assert np.abs(w).max() <= LONGEST_FREQUENCY
        if spectrum.n_uniforms(3) > 3 or isinstance(spectrum, NormalSpectrum):
            radius = spectrum.radii(np.full((1, spectrum.n_radial), end), 3)
            assert 0 <= radius[0] <= LONGEST_FREQUENCY


@pytest.mark.parametrize("large", [1e6, 1e10, 1e14])
@pytest.mark.parametrize("t", [-0.5, 0.5, 1.0, 2.0])
def test_moments_of_nearly_gaussian_mixtures_are_accurate(large, t):
    gaussian = NormalSpectrum().moment(5, t)
    for spectrum in (StudentSpectrum(large), GammaMixtureSpectrum(large)):
        assert spectrum.moment(5, t) == pytest.approx(gaussian, rel=1e-5)


def test_matern_with_infinite_nu_is_gaussian():
    assert Matern(np.inf).spectrum == NormalSpectrum()
