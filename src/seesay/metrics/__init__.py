"""Metrics: pure functions from arrays, tensors and scalars to numbers.

In rankings, ties count against the query, so that a constant scorer gains nothing; `average_precision`, `auc`
and `kendall_tau` treat tied scores as equal. NaN scores raise an error.
"""

from seesay.metrics.bootstrap import Interval, bootstrap
from seesay.metrics.grounding_recall import grounding_recall
from seesay.metrics.kendall_tau import kendall_tau
from seesay.metrics.ndcg import ndcg
from seesay.metrics.paired_test import PairedTest, paired_test
from seesay.metrics.precision import auc, average_precision, calibration_error, precision_at_r
from seesay.metrics.ranks import NO_ANSWER, Ranks, embedding_ranks, ranks
from seesay.metrics.recall import RetrievalMetrics, mean_rank, median_rank, recall_at_k, retrieval_metrics
from seesay.metrics.rouge import rouge_l

__all__ = [
    "NO_ANSWER",
    "Interval",
    "PairedTest",
    "Ranks",
    "RetrievalMetrics",
    "auc",
    "average_precision",
    "bootstrap",
    "calibration_error",
    "embedding_ranks",
    "grounding_recall",
    "kendall_tau",
    "mean_rank",
    "median_rank",
    "ndcg",
    "paired_test",
    "precision_at_r",
    "ranks",
    "recall_at_k",
    "retrieval_metrics",
    "rouge_l",
]
