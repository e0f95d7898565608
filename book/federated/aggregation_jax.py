r"""The weights of :mod:`hdpm_lib.aggregation` in JAX, for training auctions through the error
bound.

Nothing is checked here: for bad input there are no errors, only numbers without meaning. `epsilon`
holds privacy losses and `shares` positive shares of the records with sum 1, constants for the
gradient; both are of shape (..., n).
"""

from __future__ import annotations

from hdpm_lib.validation import extra

with extra("book"):
    import jax
    import jax.numpy as jnp
    from jax import Array


def _piece(q: Array, shares: Array, sells: Array, kappa: Array, idle: Array) -> tuple[Array, Array]:
    """Tell who stands above and who below her share at the optimum, for one vector of owners."""
    theta = jnp.where(sells, shares / jnp.where(sells, q, 1.0), jnp.inf)
    order = jnp.argsort(theta)
    mass = jnp.where(sells, q, 0.0)[order]
    last = jnp.max(jnp.where(sells, theta, 0.0))
    ranked = jnp.minimum(theta[order], last)
    gaps = jnp.diff(ranked)
    after = jnp.cumsum(mass[::-1])[::-1]
    zero = jnp.zeros_like(q[:1])
    above = jnp.concatenate([zero, jnp.cumsum(jnp.cumsum(mass)[:-1] * gaps)])
    below = jnp.concatenate([jnp.cumsum((after[1:] * gaps)[::-1])[::-1], zero])

    beta = ranked + kappa * above
    k = jnp.searchsorted(ranked, beta)
    deficit = below.at[k].get(mode="fill", fill_value=0.0)
    deficit += after.at[k].get(mode="fill", fill_value=0.0) * (
        ranked.at[k].get(mode="fill", fill_value=0.0) - beta
    )
    rank = jnp.zeros_like(order).at[order].set(jnp.arange(q.shape[0]))
    up = sells & (rank < jnp.sum(above - idle < deficit))

    r_up = jnp.sum(jnp.where(up, q, 0.0))
    w_up = jnp.sum(jnp.where(up, shares, 0.0))
    alpha = (ranked + kappa * w_up) / (1 + kappa * r_up)
    k = jnp.sum(alpha * r_up - w_up - idle <= below)
    return up, sells & (rank >= k) & ~up


def least_error_weights(epsilon: Array, shares: Array) -> Array:
    """Return weights of least error bound, as :func:`hdpm_lib.aggregation.least_error_weights`, of
    the type of the input.

    Examples
    --------
    >>> least_error_weights(jnp.array([2.0, 0.5, 0.0]), jnp.array([0.25, 0.25, 0.5])).round(2)
    Array([0.87, 0.13, 0.  ], dtype=float32)
    """
    epsilon, shares = jnp.broadcast_arrays(epsilon, shares)
    unit = jnp.max(epsilon, axis=-1, keepdims=True)
    q = (epsilon / jnp.where(unit > 0, unit, 1.0)) ** 2
    kappa = unit**2 / 2
    sells = q > jnp.finfo(q.dtype).tiny ** 0.5
    idle = jnp.sum(jnp.where(sells, 0.0, shares), -1, keepdims=True)
    find = jnp.vectorize(_piece, signature="(n),(n),(n),(),()->(n),(n)")
    up, down = find(q, shares, sells, kappa[..., 0], idle[..., 0])

    def total(mask: Array, values: Array) -> Array:
        return jnp.sum(jnp.where(mask, values, 0.0), -1, keepdims=True)

    r_up = total(up, q)
    w_up = total(up, shares)
    r_down = total(down, q)
    w_down = total(down, shares)
    denominator = r_up + r_down + kappa * r_up * r_down
    denominator = jnp.where(denominator > 0, denominator, 1.0)
    common = w_up + w_down + idle
    alpha = (common + kappa * r_down * w_up) / denominator
    beta = (common + kappa * r_up * (w_down + idle)) / denominator
    kept = jnp.where(sells | (unit == 0), shares, 0.0)
    return jnp.where(up, alpha * q, jnp.where(down, beta * q, kept))


@jax.custom_jvp
def least_error(epsilon: Array, shares: Array, clip_norm: float = 1.0) -> Array:
    r"""Return the least error bound; its gradient is the envelope's,
    :math:`-16L^2\lambda_i^2/\varepsilon_i^3`, 0 at a loss of 0.

    Infinite where nobody sells. To count the variance of `D` coordinates, pass the privacy losses
    over the root of `D`.

    Examples
    --------
    >>> float(jax.grad(least_error)(jnp.array([2.0, 2.0, 0.0]), jnp.array([0.125, 0.375, 0.5]))[0])
    -0.5
    """
    weights = least_error_weights(epsilon, shares)
    sells = epsilon > 0
    noise = jnp.where(sells, weights / jnp.where(sells, epsilon, 1.0), 0.0)
    bound = 8 * jnp.sum(noise**2, -1) + jnp.sum(jnp.abs(weights - shares), -1) ** 2
    return clip_norm**2 * jnp.where(jnp.any(sells, -1), bound, jnp.inf)


@least_error.defjvp
def _(primals, tangents):  # type: ignore[no-untyped-def]
    epsilon, shares, clip_norm = primals
    weights = least_error_weights(epsilon, shares)
    sells = epsilon > 0
    slope = jnp.where(sells, weights / jnp.where(sells, epsilon, 1.0), 0.0) ** 2 / jnp.where(
        sells, epsilon, 1.0
    )
    return least_error(*primals), -16 * clip_norm**2 * jnp.sum(slope * tangents[0], -1)
