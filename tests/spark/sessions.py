"""Settings of Spark sessions that live for seconds and see few rows."""

from __future__ import annotations

QUICK = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""No query here has enough rows to be worth compiling."""
LOCAL_FILES = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
}
"""For sessions that nobody kills: Spark's own way to write the files of a checkpoint starts processes for each."""
