r"""A posted menu for sellers who trust nobody: each randomises her own record and sells as much
privacy as pays.

A record of variance :math:`\tau^2` with noise of its own, of mean square :math:`\nu/\varepsilon^2`,
tells :math:`f(\varepsilon)=\varepsilon^2/(\tau^2\varepsilon^2+\nu)` about the mean: this
*information*, an inverse variance, adds up over sellers. The buyer who values a unit of it at
:math:`\lambda`, and counts the virtual cost :math:`\psi`, wants from each seller the loss that
maximises :math:`\lambda f(\varepsilon)-\psi\varepsilon`. No seller's loss depends on another's
report, so a price list does it: no auction is needed.

The information is S-shaped. Below :math:`\varepsilon_0=\sqrt\nu/\tau` two sellers who sell half
each tell less than one who sells all, so nobody sells less than that (:doc:`/book/beyond/curves`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.markets.outcome import Outcome
from hdpm_lib.validation import check_finite, check_number

Array = NDArray[np.float64]
RANGE = (1e-50, 1e50)  # of costs and constants: their products stay within floats


def information(epsilon: ArrayLike, variance: float, noise: float) -> Array:
    r"""What a record tells, :math:`\varepsilon^2/(\tau^2\varepsilon^2+\nu)`, for losses of any
    shape, not negative.
    """
    eps, tau2, nu = check_finite(epsilon, "epsilon", low=0), *_constants(variance, noise)
    return np.asarray(1 / (tau2 + nu / np.maximum(eps, 1e-150) ** 2))


def local_menu(virtual_costs: ArrayLike, variance: float, noise: float, worth: float) -> Outcome:
    r"""Whose privacy is bought, and how much; losses have the shape of the virtual costs.

    Parameters
    ----------
    virtual_costs : array of any shape, positive
    variance, noise, worth : float, positive
        :math:`\tau^2`, :math:`\nu` and :math:`\lambda`. For records in a ball of diameter `s` in
        `d` dimensions, with spherical Laplace noise, :math:`\nu=d(d+1)s^2`.

    Notes
    -----
    She sells if :math:`\psi\le\lambda/(2\tau\sqrt\nu)`. Then :math:`\varepsilon=\varepsilon_0u`,
    where :math:`u\ge1` solves :math:`u/(1+u^2)^2=\psi\tau\sqrt\nu/(2\lambda)`.

    Examples
    --------
    >>> local_menu([1.0, 2.0, 5.0], 1.0, 1.0, 5.0).privacy_loss.round(4)
    array([1.8011, 1.2068, 0.    ])
    """
    psi = check_finite(virtual_costs, "virtual_costs", None, *RANGE)
    tau2, nu = _constants(variance, noise)
    level = psi * np.sqrt(tau2 * nu) / (2 * check_number(worth, "worth", *RANGE))
    sells = level <= 0.25
    asked = level[sells]
    from scipy.optimize import elementwise  # loads slowly

    found = elementwise.find_root(
        lambda u, asked: u / (1 + u * u) ** 2 - asked,
        (np.ones_like(asked), 2 * np.cbrt(1 / asked)),
        args=(asked,),
    )
    loss = np.zeros(psi.shape)
    loss[sells] = np.sqrt(nu / tau2) * np.where(asked >= 0.25, 1.0, found.x)
    return Outcome(loss)


def _constants(variance: float, noise: float) -> tuple[float, float]:
    tau2, nu = (
        check_number(value, name, *RANGE)
        for value, name in ((variance, "variance"), (noise, "noise"))
    )
    return tau2, nu
