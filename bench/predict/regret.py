#!/usr/bin/env python3
"""ado's TRIM and autoconf on the published tables that replay_search replays, in its measure: regret after k
measurements.

    replay_search FOLDER --dump tables.json
    python regret.py tables.json [--seeds N] [--models surrogate|autogluon] [--only trim|autoconf]

Needs ado-trim (PyPI; 2.2.4 with ado-core 2.3.0, since 2.2.5 does not load with 2.2.0 or 2.3.0), whose own
functions choose the order:

  TRIM      its concatenated Latin hypercube (no_priors_utils) up to minPoints, then one order of all
            that is left: get_feature_importance_order, rows sorted by it, get_index_list_van_der_corput. After k
            measurements the final model of all of them, AutoGluon's as TrimParameters sets it up, is what recommends.
            What died counts as 0 (missingTargetMeasurements: InjectDefaultValue); the default ends the operation.
            A combination that a table lacks is passed over and costs nothing.
  autoconf  throughput_recommender as its source has it: a classifier of validity and a regressor of throughput over
            model_name, method, number_gpus, gpu_model, tokens_per_sample and batch_size; the best prediction of what is
            predicted to be valid is recommended. Its rule, batch_size % number_gpus == 0, holds in all rows. Its own
            models are trained on LLMFineTuningBench, which this project keeps for judging and does not open. So both
            are trained here, on the other models' tables and on the k first rows of a random order of this one. Its
            target is the rate per GPU here, as everybody's.

--models surrogate (default): a stand-in that is ours, scikit-learn's ExtraTrees and their importances, where ado has
AutoGluon. It takes milliseconds, so that many seeds can be replayed. --models autogluon: ado's own, a minute for each
fit at most. Rows say which.
"""
import argparse
import json
import logging
import os
import random
import tempfile
import warnings

import numpy as np
import pandas as pd

AFTER = (0, 3, 5, 10, 20)
NEAR = 0.02
TARGET = "rate"
AUTOCONF_COLUMNS = ["model_name", "method", "number_gpus", "gpu_model", "tokens_per_sample", "batch_size"]


class Table:
    """A model of a published table: its varying inputs, and what was measured."""

    def __init__(self, json_table):
        rows = json_table["rows"]
        points = pd.DataFrame([row["point"] for row in rows]).map(
            lambda value: json.dumps(value) if isinstance(value, (list, dict)) else value)
        self.name, self.model, self.best = json_table["name"], json_table["model"], json_table["best"]
        self.rates = np.array([row["rate"] or 0.0 for row in rows])
        self.columns = [name for name in points.columns if points[name].astype(str).nunique() > 1]
        # One type a column: TRIM sorts its values.
        self.frame = points[self.columns].copy()
        for name in self.columns:
            if not pd.api.types.is_numeric_dtype(self.frame[name]) or self.frame[name].dtype == bool:
                self.frame[name] = self.frame[name].astype(str)
        self.frame = self.frame.fillna(-1)
        self.autoconf = pd.DataFrame({
            "model_name": self.model,
            "method": points["experiment"].str.extract(r"finetune_(.*)_benchmark")[0].fillna("full"),
            "number_gpus": points.get("number_gpus", pd.Series(1, index=points.index)),
            "gpu_model": points["gpu_model"].astype(str),
            "tokens_per_sample": points["model_max_length"],
            "batch_size": points["batch_size"]})

    def regret(self, row):
        return 1.0 if row is None else 1 - self.rates[row] / self.best


def encoded(frame):
    columns = []
    for name in frame.columns:
        if pd.api.types.is_numeric_dtype(frame[name]):
            columns.append(np.log2(np.maximum(frame[name].astype(float), 1e-9)).rename(name))
        else:
            columns.append(pd.get_dummies(frame[name], prefix=name).astype(float))
    return pd.concat(columns, axis=1)


class Surrogate:
    """Ours, in place of AutoGluon."""

    name = "surrogate"

    def __init__(self, seed):
        self.seed = seed

    def fit_predict(self, frame, rows, values, kind="regression"):
        from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
        points = encoded(frame).to_numpy()
        if len(set(values)) == 1:
            return np.full(len(frame), values[0])
        make = ExtraTreesRegressor if kind == "regression" else ExtraTreesClassifier
        model = make(n_estimators=100, random_state=self.seed).fit(points[rows], values)
        return model.predict(points)

    def importance(self, frame, rows, values):
        from sklearn.ensemble import ExtraTreesRegressor
        points = encoded(frame)
        model = ExtraTreesRegressor(n_estimators=100, random_state=self.seed)
        model.fit(points.to_numpy()[rows], values)
        shares = {name: 0.0 for name in frame.columns}
        for column, share in zip(points.columns, model.feature_importances_):
            owner = max((n for n in frame.columns if column == n or column.startswith(n + "_")), key=len)
            shares[owner] += share
        return sorted(shares, key=shares.get, reverse=True)


class AutoGluon:
    """As trim_pydantic.AutoGluonArgs sets it up: medium, without GBM, a minute."""

    name = "AutoGluon"

    def __init__(self, seed):
        self.arguments = {"time_limit": 60, "presets": "medium", "excluded_model_types": ["GBM"]}

    def fit_predict(self, frame, rows, values, kind="regression"):
        from autogluon.tabular import TabularPredictor
        if len(set(values)) == 1:
            return np.full(len(frame), values[0])
        data = frame.iloc[rows].assign(**{TARGET: values})
        with tempfile.TemporaryDirectory() as folder:
            problem = "regression" if kind == "regression" else "binary"
            predictor = TabularPredictor(label=TARGET, problem_type=problem, path=folder + "/m", verbosity=0)
            try:
                predictor.fit(train_data=data, **self.arguments)
            except Exception as error:  # too few rows for it: nothing is recommended
                print(f"# AutoGluon on {len(rows)} rows: {str(error)[:100]}")
                return None
            return predictor.predict(frame).to_numpy()

    def importance(self, frame, rows, values):
        from trim.trim_pydantic import AutoGluonArgs
        from trim.utils.order import get_feature_importance_order
        with tempfile.TemporaryDirectory() as folder:
            arguments = AutoGluonArgs(tabularPredictorArgs={"verbosity": 0, "path": folder + "/m"})
            data = frame.iloc[rows].assign(**{TARGET: values})
            order, _ = get_feature_importance_order(data, TARGET, len(rows), arguments)
        return list(order)


def trim_order(table, models, seed, min_points):
    """All rows in TRIM's order."""
    from trim.samplers import no_priors_utils as trim
    frame = table.frame.assign(row=np.arange(len(table.frame), dtype=float))
    sizes = [table.frame[name].nunique() for name in table.columns]
    # The inside of order_df_for_sampling_with_no_priors, which has no seed.
    grid = trim.order_df_for_get_index_list_nn_high_dimensional(frame, table.columns, sizes)
    places = trim.get_sampling_indices_multi_dimensional(sizes, int(np.prod(sizes)), strategy="clhs", seed=seed)
    ordered = grid.iloc[trim.get_index_list_nn_high_dimensional(places, sizes)]
    first = [int(row) for row in ordered["row"] if not pd.isna(row)]
    first = list(dict.fromkeys(first))
    first += [row for row in range(len(table.rates)) if row not in set(first)]
    sample = first[:min_points]
    if len(set(table.rates[sample])) < 2:  # TRIM refuses to order by one value
        return first
    importance = models.importance(table.frame, sample, table.rates[sample])
    by_importance = table.frame.sort_values(by=list(importance), kind="stable").index.tolist()
    positions = [by_importance.index(row) for row in sample]
    order = trim.get_index_list_van_der_corput(len(by_importance), len(by_importance), sampled_indices=positions)
    rest = [by_importance[i] for i in order if by_importance[i] not in set(sample)]
    return sample + rest


def scores_of(table, order, recommend, score, after=AFTER):
    best, near = None, len(order)
    for count in range(max(after) + 1):
        if count in after:
            score["measured"].setdefault(count, []).append(table.regret(best))
            row = recommend(order[:count])
            score["recommended"].setdefault(count, []).append(table.regret(row))
        if count >= len(order):
            continue
        row = order[count]
        if table.rates[row] > 0 and (best is None or table.rates[row] > table.rates[best]):
            best = row
    best_so_far = np.maximum.accumulate(table.rates[order])
    reached = np.flatnonzero(best_so_far >= (1 - NEAR) * table.best)
    near = int(reached[0]) + 1 if len(reached) else near
    score["near"].append(near)


def by_final_model(table, models):
    def recommend(measured):
        if not measured or len(set(table.rates[measured])) < 2:
            return int(measured[int(np.argmax(table.rates[measured]))]) if measured else None
        predicted = models.fit_predict(table.frame, measured, table.rates[measured])
        if predicted is None:
            return None
        predicted = predicted.astype(float)
        predicted[measured] = table.rates[measured]
        return int(np.argmax(predicted))
    return recommend


def by_autoconf(table, others, models):
    """Classifier and regressor of the other models' tables, and of what was measured of this one."""
    frame = pd.concat([table.autoconf] + [other.autoconf for other in others], ignore_index=True)
    rates = np.concatenate([table.rates] + [other.rates for other in others])
    elsewhere = list(range(len(table.rates), len(rates)))

    def recommend(measured):
        rows = [int(row) for row in measured] + elsewhere
        valid = models.fit_predict(frame, rows, (rates[rows] > 0).astype(int), "classification")
        ran = [row for row in rows if rates[row] > 0]
        predicted = models.fit_predict(frame, ran, rates[ran])
        if valid is None or predicted is None:
            return None
        own = slice(0, len(table.rates))
        predicted, valid = predicted[own].astype(float), np.asarray(valid)[own].astype(int)
        if not valid.any():
            return None
        return int(np.argmax(np.where(valid == 1, predicted, -1)))
    return recommend


def percentiles(values):
    ordered = sorted(values)
    at = [ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in (0.5, 0.9)]
    return f"{100 * at[0]:.1f} %, {100 * at[1]:.1f} %"


def row_of(name, score, kind):
    near = sorted(score["near"])
    ends = [near[min(len(near) - 1, int(share * len(near)))] for share in (0.5, 0.9)]
    cells = " | ".join(percentiles(score[kind][count]) for count in AFTER)
    return f"| {name} | {cells} | {ends[0]}, {ends[1]} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--models", choices=["surrogate", "autogluon"], default="surrogate")
    parser.add_argument("--min-points", type=int, nargs="*", default=[18, 5], help="of TRIM; 18 is its default")
    parser.add_argument("--only", choices=["trim", "autoconf"])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    os.environ.setdefault("RAY_DISABLE_IMPORT_WARNING", "1")
    with open(options.tables, encoding="utf-8") as file:
        tables = [Table(one) for one in json.load(file)]
    make = Surrogate if options.models == "surrogate" else AutoGluon
    results = []
    for min_points in [] if options.only == "autoconf" else options.min_points:
        score = {"measured": {}, "recommended": {}, "near": []}
        for table in tables:
            for seed in range(options.seeds):
                models = make(seed)
                order = trim_order(table, models, seed, min_points)
                scores_of(table, order, by_final_model(table, models), score)
        results.append((f"TRIM's functions, minPoints {min_points}, {make.name}", score))
    if options.only != "trim":
        score = {"measured": {}, "recommended": {}, "near": []}
        for table in tables:
            others = [other for other in tables if other.model != table.model]
            for seed in range(options.seeds):
                order = list(range(len(table.rates)))
                random.Random(seed).shuffle(order)
                scores_of(table, order, by_autoconf(table, others, make(seed)), score)
        results.append((f"autoconf's rules, {make.name} of the other models and of k random rows", score))
    print(f"{len(tables)} tables, {options.seeds} seeds")
    for kind in ("measured", "recommended"):
        title = {"measured": "regret of the best that was measured", "recommended": "regret of what is recommended"}
        print(f"\n| {title[kind]} | " + " | ".join(f"after {count}" for count in AFTER) + " | within 2 % |")
        print("| --- |" + " ---: |" * (len(AFTER) + 1))
        for name, score in results:
            print(row_of(name, score, kind))


if __name__ == "__main__":
    main()
