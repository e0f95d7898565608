"""Buy privacy from people at their own prices, release estimates, and audit what is promised.

Whoever gives data away loses privacy, and not everybody minds equally. Here each person has a
privacy loss of her own, `epsilon`: whichever value her record has, every result is as likely, up
to a factor of ``e**epsilon``. A market decides how much of it is bought from whom, and for what
payment. An estimate is released with noise for just these losses. An audit looks whether anybody
loses more. This is the heterogeneous differential privacy, and these are the mechanisms, that the
name stands for.

There are four things to do, and these functions to begin with:

release
    `PersonalizedRidge` and `PrivateLogisticRegression` are estimators as in scikit-learn, with an
    `epsilon` for each person. `weighted_mean` and `linear_query` answer one question. An `Account`
    adds up what several releases cost each person.
noise
    Releases draw their own noise. `spherical_laplace` and `discrete_laplace` draw it for studies.
    `least_error_weights` puts together answers to which people have added noise themselves.
buy
    `compare_markets` shows what each design makes of the same money. `all_or_nothing` and
    `posted_prices` keep to a budget, `vcg_contract` keeps to an accuracy. A market gives an
    `Outcome`: privacy losses, payments, cost and error.
audit
    `privacy_losses` measures what each person loses by a mechanism of this library. `audit` takes
    any function, and looks for outputs that tell more than was claimed. `audit_one_run` looks for
    the same in a training that is too long to run twice. `search_misreports` looks for a lie that
    pays in a market.

Examples
--------
Three people want 1, 2 and 4 euros for a privacy loss of 1, and the buyer has ten. She takes two of
them, at the price of the third:

>>> import numpy as np
>>> import hdpm_lib as hdpm
>>> sale = hdpm.all_or_nothing([1.0, 2.0, 4.0], [1.0, 1.0, 1.0], budget=10.0)
>>> sale.payments
array([4., 4., 0.])

Their numbers, from 0 to 1, have a mean. It leaves with noise for what they sold, and the third
person loses nothing:

>>> mean = hdpm.weighted_mean(sale, centre=[0.5], radius=0.5)
>>> answer = mean.release([[0.3], [0.8], [0.4]], rng=np.random.default_rng())
>>> mean.privacy_loss
array([1., 1., 0.])

Somebody else adds too little noise for a privacy loss of 1, and is caught:

>>> noisy = lambda data, rng: data.mean() + rng.laplace(0, 0.1)
>>> hdpm.audit(noisy, np.zeros(4), np.array([1.0, 0.0, 0.0, 0.0]), epsilon=1.0).found
True

Each function has examples of its own, ``help(hdpm_lib.audit)``. Whatever is not in the list of
names below stands in the modules; all is imported when it is first used. The library is for study:
its guarantees, and what they do not cover, are in the book, on the page
*What is promised, and what is not*.
"""

import ast
import pkgutil

import lazy_loader


def _public_names() -> tuple[list[str], dict[str, list[str]]]:
    """Return what ``__init__.pyi`` lists: modules, and names by the module that defines them.

    The loader reads the file, and not ``open``: the library may lie in a zip.
    """
    modules: list[str] = []
    names: dict[str, list[str]] = {}
    for statement in ast.parse(pkgutil.get_data(__name__, "__init__.pyi") or b"").body:
        if isinstance(statement, ast.ImportFrom) and statement.level == 1:
            listed = [alias.name for alias in statement.names]
            if statement.module is None:
                modules += listed
            else:
                names.setdefault(statement.module, []).extend(listed)
    return modules, names


__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, *_public_names())

__version__ = "0.1.0"
