"""The logs of the ridge paper's experiments, which its authors have published.

A log has one row for each point of a sweep and each penalty: mean and standard deviation of both
losses over 10,000 runs, for every method. The printed tables and figures show some of these rows.
Here the columns have the names of the printed tables in ``data/published/pdp-ridge``.
"""

from __future__ import annotations

import io

import pandas as pd

from hdpm_book import retrieval

ABSENT = "the authors' logs are not here: what was counted in them before is shown"
FIRST = "51fb29c785b7578a688475936ce15d69ef30f0c0"  # a commit with the logs of all tables
RERUN = "08ace6008eaf733780954b098376dde768ce1286"  # a later one: new synthetic data by share
EPS = {
    "synthetic": f"{FIRST}/pp/synthetic_expt/csv_outputs/forplots_specific_30_100_eps_c_eps_m.csv",
    "medical": f"{FIRST}/pp/real_data/forplots_insurance_data_impact_epsc_epsm_affine.csv",
}
# by data and by what is swept, in the words of `hdpm_book.ridge.study.SWEEPS`
FILES = {
    ("synthetic", "lambda"): (
        f"{FIRST}/pp/csv_outputs/forplots_specific_30_100_plevel_34_43_23_result.csv"
    ),
    ("medical", "lambda"): (
        f"{FIRST}/pp/real_data/insurance/"
        "forplots_insurance_data_impact_lambda_plevel_34_43_23_affine.csv"
    ),
    ("synthetic", "eps_c"): EPS["synthetic"],
    ("medical", "eps_c"): EPS["medical"],
    ("synthetic", "eps_m"): EPS["synthetic"],
    ("medical", "eps_m"): EPS["medical"],
    ("synthetic", "f_c"): (
        f"{FIRST}/pp/synthetic_expt/csv_outputs/forplots_specific_30_100_impact_fc.csv"
    ),
    ("medical", "f_c"): f"{FIRST}/pp/real_data/forplots_insurance_data_impact_fc_affine.csv",
    ("synthetic", "n_fraction"): (
        f"{FIRST}/pp/synthetic_expt/csv_outputs/forplots_specific_30_100_impact_n.csv"
    ),
    ("medical", "n_fraction"): (
        f"{FIRST}/pp/real_data/insurance/"
        "forplots_insurance_data_impact_n_plevel_34_43_23_affine.csv"
    ),
    ("synthetic", "n_fraction, rerun"): (
        f"{RERUN}/pp/synthetic_expt/csv_outputs/forplots_specific_30_100_impact_n.csv"
    ),
}
METHODS = {
    "pp": "pdp_op",
    "nonpp": "nonpersonalized",
    "jorg_max": "jorgensen_max",
    "jorg_avg": "jorgensen_mean",
}
KEPT = {"eps_c": ("eps_m", 0.5), "eps_m": ("eps_c", 0.01)}  # what a log of both sweeps holds fixed


def read(raw: bytes, sweep: str) -> pd.DataFrame:
    """Return a log as a table.

    Parameters
    ----------
    raw : bytes
        The file.
    sweep : str
        What is swept, as in `FILES`.

    Returns
    -------
    DataFrame
        Rows by the swept value and the penalty; columns by ``"mean"`` or ``"std"`` and by the names
        of the printed tables, such as ``"unreg_pdp_op"``.

    Examples
    --------
    >>> log = read(b"fc,lamb,reg_pp_test_mean,reg_pp_test_std\\n0.1,7,2.5,0.3\\n", "f_c")
    >>> float(log["mean", "reg_pdp_op"][0.1, 7])
    2.5
    """
    log = pd.read_csv(io.BytesIO(raw))
    log = log.rename(columns={"lamb": "lambda", "fc": "f_c", "n_frac": "n_fraction"})
    if sweep in KEPT:
        name, kept = KEPT[sweep]
        log = log[(log[name] - kept).abs() < 1e-9]
    if "N_train_frac" in log:  # a number of records, the last of them all
        log["n_fraction"] = log["N_train_frac"] / log["N_train_frac"].max()
    value = log[sweep.partition(",")[0]].round(9)
    columns = {}
    for loss in ("unreg", "reg"):
        for short, method in METHODS.items():
            for statistic in ("mean", "std"):
                name = f"{loss}_{short}_test_{statistic}"
                if name in log:
                    columns[statistic, f"{loss}_{method}"] = log[name].to_numpy()
    for loss, name in (("unreg", "type1_nonpriv_loss"), ("reg", "type2_nonpriv_loss")):
        if name in log:
            columns["mean", f"{loss}_nonprivate"] = log[name].to_numpy()
    rows = pd.MultiIndex.from_arrays([value, log["lambda"]], names=["value", "penalty"])
    return pd.DataFrame(columns, index=rows)


def logs() -> dict[tuple[str, str], pd.DataFrame]:
    """Return all logs, by data and by what is swept; none if they cannot be had, as no stand-in
    could tell what the authors' runs gave.
    """
    found = retrieval.real_or_none("pp_ridge_logs")
    if found is None:
        retrieval.notify(f"On this page {ABSENT}.")
        return {}
    return {key: read(found[0][path], key[1]) for key, path in FILES.items()}
