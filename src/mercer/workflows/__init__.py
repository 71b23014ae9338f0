"""One function per command of the command line: files in, files and a result out."""

from mercer.workflows.evaluate import EvaluateResult, ExportedModel, evaluate_file, export_file, report_file
from mercer.workflows.fit import ESTIMATORS, fit_file
from mercer.workflows.kernels import KERNELS, MapResult, audit_file, choose_file, compare_file, transform_file
from mercer.workflows.predict import PredictResult, predict_file
from mercer.workflows.samples import ClusterResult, TwoSampleResult, cluster_file, two_sample_files

__all__ = [
    "ESTIMATORS",
    "KERNELS",
    "ClusterResult",
    "EvaluateResult",
    "ExportedModel",
    "MapResult",
    "PredictResult",
    "TwoSampleResult",
    "audit_file",
    "choose_file",
    "cluster_file",
    "compare_file",
    "evaluate_file",
    "export_file",
    "fit_file",
    "predict_file",
    "report_file",
    "transform_file",
    "two_sample_files",
]
