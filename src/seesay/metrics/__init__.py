"""Metrics: pure functions from arrays, tensors and scalars to numbers.

Of the names, `S` is sentence retrieval (the query is an image: i2t), and `I` image retrieval (t2i).

In rankings, ties count against the query, so that a constant scorer gains nothing; `average_precision` and
`auc` treat tied scores as equal. NaN scores raise an error.
"""

from seesay.metrics.bootstrap import Interval, bootstrap
from seesay.metrics.grounding_recall import grounding_recall
from seesay.metrics.precision import auc, average_precision
from seesay.metrics.ranks import NO_ANSWER, Ranks, embedding_ranks, ranks
from seesay.metrics.recall import RetrievalMetrics, mean_rank, median_rank, recall_at_k, retrieval_metrics
from seesay.metrics.significance import PairedTest, paired_test

__all__ = [
    "NO_ANSWER",
    "Interval",
    "PairedTest",
    "Ranks",
    "RetrievalMetrics",
    "auc",
    "average_precision",
    "bootstrap",
    "embedding_ranks",
    "grounding_recall",
    "mean_rank",
    "median_rank",
    "paired_test",
    "ranks",
    "recall_at_k",
    "retrieval_metrics",
]
