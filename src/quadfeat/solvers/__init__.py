"""How models are solved: Gram matrices, normal equations, conjugate gradients, posteriors."""
