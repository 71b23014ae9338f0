"""Ridge regression from second moments: one penalty, a path of penalties, leave-one-out, calibration."""
