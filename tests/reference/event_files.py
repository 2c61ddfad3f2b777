#!/usr/bin/env python3
"""Writes tests/reference/tensorboard/events.bin: an event file by TensorBoard's own writer and messages.

    python3 -m venv VENV && VENV/bin/pip install tensorboard==2.21.0
    VENV/bin/python tests/reference/event_files.py

tests/trackers/tensorboard_events_test.cpp writes the same events.
"""
import pathlib

from tensorboard.compat.proto.event_pb2 import Event, SessionLog, SourceMetadata
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2, summary_v2
from tensorboard.summary.writer.record_writer import RecordWriter

INPUTS = {"batch_size": 4, "fast_moe": False, "learning_rate": 1e-05, "model_name": "smollm2-135m", "r": "None"}
TAGS = ["measured/train_runtime", "measured/is_valid"]


def plugin_summary(tag, **content):
    """As hparams' own functions do it; the map of inputs is in the order of its keys."""
    made = summary_v2._summary_pb(tag, plugin_data_pb2.HParamsPluginData(**content))
    plugin_data = made.value[0].metadata.plugin_data
    data = plugin_data_pb2.HParamsPluginData.FromString(plugin_data.content)
    plugin_data.content = data.SerializeToString(deterministic=True)
    return made


def experiment():
    kinds = {bool: api_pb2.DATA_TYPE_BOOL, str: api_pb2.DATA_TYPE_STRING}
    return plugin_summary(metadata.EXPERIMENT_TAG, experiment=api_pb2.Experiment(
        hparam_infos=[api_pb2.HParamInfo(name=name, type=kinds.get(type(value), api_pb2.DATA_TYPE_FLOAT64))
                      for name, value in INPUTS.items()],
        metric_infos=[api_pb2.MetricInfo(name=api_pb2.MetricName(tag=tag)) for tag in TAGS],
        time_created_secs=1700000000.25))


def session_start():
    start = plugin_data_pb2.SessionStartInfo(group_name="0123abcd", start_time_secs=1700000000.25)
    for name, value in INPUTS.items():
        field = {bool: "bool_value", str: "string_value"}.get(type(value), "number_value")
        setattr(start.hparams[name], field, value)
    return plugin_summary(metadata.SESSION_START_INFO_TAG, session_start_info=start)


def session_end(at):
    end = plugin_data_pb2.SessionEndInfo(status=api_pb2.STATUS_SUCCESS, end_time_secs=at)
    return plugin_summary(metadata.SESSION_END_INFO_TAG, session_end_info=end)


def main():
    at = 1700000000.25
    events = [
        Event(wall_time=at, file_version="brain.Event:2", source_metadata=SourceMetadata(writer="sftbench")),
        Event(wall_time=at, step=1, session_log=SessionLog(status=SessionLog.START)),
        Event(wall_time=at, summary=experiment()),
        Event(wall_time=at, summary=session_start()),
        Event(wall_time=at + 1, step=1, summary=Summary(value=[Summary.Value(tag="train/loss", simple_value=11.33)])),
        Event(wall_time=at + 2, step=300,
              summary=Summary(value=[Summary.Value(tag="train/grad_norm", simple_value=float("inf"))])),
        Event(wall_time=at + 3, summary=Summary(value=[Summary.Value(tag="system/cpu_percent", simple_value=0.0)])),
        Event(wall_time=at + 4, summary=session_end(at + 4)),
    ]
    path = pathlib.Path(__file__).parent / "tensorboard/events.bin"
    path.parent.mkdir(exist_ok=True)
    with open(path, "wb") as file:
        writer = RecordWriter(file)
        for event in events:
            writer.write(event.SerializeToString(deterministic=True))
        writer.flush()


if __name__ == "__main__":
    main()
