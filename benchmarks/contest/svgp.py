"""A sparse variational Gaussian process of GPyTorch as a scikit-learn regressor.

Import this module only where torch and gpytorch are installed.
"""

from __future__ import annotations

from typing import Any

import gpytorch
import numpy as np
import torch
from scipy.stats import norm
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.preprocessing import StandardScaler

from quadfeat._utils.validation import Array

ROWS_PER_PREDICTION = 4096


class _Process(gpytorch.models.ApproximateGP):
    """A constant mean and a Matern 5/2 kernel with a lengthscale for each column."""

    def __init__(self, inducing: Any) -> None:
        distribution = gpytorch.variational.CholeskyVariationalDistribution(len(inducing))
        super().__init__(
            gpytorch.variational.VariationalStrategy(
                self, inducing, distribution, learn_inducing_locations=True
            )
        )
        n_columns = inducing.shape[1]
        self.mean_module = gpytorch.means.ConstantMean()
        matern = gpytorch.kernels.MaternKernel(nu=2.5, ard_num_dims=n_columns)
        # The usual scale. GPyTorch starts at 0.69, where many columns look like noise.
        matern.lengthscale = n_columns**0.5
        self.covar_module = gpytorch.kernels.ScaleKernel(matern)

    def forward(self, X: Any) -> Any:
        """Return the prior of the values at the rows."""
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))


class SparseVariationalGP(RegressorMixin, BaseEstimator):
    """Fit a sparse variational Gaussian process by Adam on batches of rows.

    Columns and target are standardized here.

    Parameters
    ----------
    n_inducing : int, default=512
        Inducing points. They start at random rows and are learned.
    epochs : int, default=50
        Passes over the rows.
    min_steps, max_steps : int
        Bounds of the number of steps: small tables get more passes, large ones fewer.
    batch_size : int, default=1024
    learning_rate : float, default=0.01
    random_state : int, default=0
    """

    def __init__(
        self,
        n_inducing: int = 512,
        *,
        epochs: int = 50,
        min_steps: int = 1500,
        max_steps: int = 2000,
        batch_size: int = 1024,
        learning_rate: float = 0.01,
        random_state: int = 0,
    ) -> None:
        self.n_inducing = n_inducing
        self.epochs = epochs
        self.min_steps = min_steps
        self.max_steps = max_steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.random_state = random_state

    def fit(self, X: Array, y: Array) -> SparseVariationalGP:
        """Learn inducing points, kernel and noise by the evidence lower bound."""
        rng = np.random.default_rng(self.random_state)
        torch.manual_seed(self.random_state)
        self.center_, self.unit_ = float(y.mean()), float(y.std())
        self.scaler_ = StandardScaler().fit(X)
        rows = torch.as_tensor(self.scaler_.transform(X), dtype=torch.float32)
        targets = torch.as_tensor((y - self.center_) / self.unit_, dtype=torch.float32)
        chosen = rng.choice(len(X), min(self.n_inducing, len(X)), replace=False)
        self.process_ = _Process(rows[chosen].clone())
        self.likelihood_ = gpytorch.likelihoods.GaussianLikelihood()
        self.likelihood_.noise = 0.1
        bound = gpytorch.mlls.VariationalELBO(self.likelihood_, self.process_, num_data=len(X))
        parameters = [*self.process_.parameters(), *self.likelihood_.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=self.learning_rate)
        per_epoch = -(-len(X) // self.batch_size)
        n_steps = min(max(self.epochs * per_epoch, self.min_steps), self.max_steps)
        schedule = torch.optim.lr_scheduler.MultiStepLR(
            optimizer, milestones=[n_steps * 3 // 4], gamma=0.1
        )
        self.process_.train()
        self.likelihood_.train()
        for step in range(n_steps):
            if step % per_epoch == 0:
                order = torch.as_tensor(rng.permutation(len(X)))
            start = step % per_epoch * self.batch_size
            batch = order[start : start + self.batch_size]
            optimizer.zero_grad()
            loss = -bound(self.process_(rows[batch]), targets[batch])
            loss.backward()
            optimizer.step()
            schedule.step()
        self.n_iter_ = n_steps
        return self

    def predictive(self, X: Array) -> tuple[Array, Array]:
        """Return mean and standard deviation of new targets."""
        self.process_.eval()
        self.likelihood_.eval()
        X = self.scaler_.transform(X)
        means, deviations = [], []
        with torch.no_grad():
            for start in range(0, len(X), ROWS_PER_PREDICTION):
                rows = torch.as_tensor(X[start : start + ROWS_PER_PREDICTION], dtype=torch.float32)
                found = self.likelihood_(self.process_(rows))
                means.append(found.mean.numpy())
                deviations.append(found.stddev.numpy())
        mean = np.concatenate(means).astype(np.float64) * self.unit_ + self.center_
        return mean, np.concatenate(deviations).astype(np.float64) * self.unit_

    def predict(self, X: Array) -> Array:
        """Return the mean."""
        return self.predictive(X)[0]

    def predict_interval(self, X: Array, coverage: float = 0.9) -> tuple[Array, Array]:
        """Return the central interval of the Gaussian predictive distribution."""
        mean, deviation = self.predictive(X)
        reach = norm.ppf((1 + coverage) / 2) * deviation
        return mean - reach, mean + reach
