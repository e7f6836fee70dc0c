"""Reads a Perfetto trace with the official protobuf classes; prints its content as JSON.

Runs in build/export/venv. Fails on: a packet that is not of sequence 1 or comes before the state
was cleared; a track used or taken as parent before its descriptor, or described twice; a slice that
ends without a begin or never; times that go back on a track; a flow that ends where none began; a
stack, frame, function, path or mapping used before its definition; samples that go back in time.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from pathlib import Path

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

Event = pb.TrackEvent


class Reader:
    """The state that the packets build up."""

    def __init__(self) -> None:
        self.tracks: dict[int, pb.TrackDescriptor] = {}
        self.open: dict[int, list[tuple[int, str, str]]] = defaultdict(list)
        self.last: dict[int, int] = {}
        self.slices: list[tuple[str, str, int]] = []
        self.instants: list[str] = []
        self.counters: Counter[str] = Counter()
        self.began: set[int] = set()
        self.ended: set[int] = set()
        self.threads: dict[int, str] = {}
        self.samples: Counter[str] = Counter()
        self.sampled_ns = 0
        self.weight = 0
        self.reported: dict[str, dict[int, object]] = defaultdict(dict)
        self.unknown = 0

    def packet(self, packet: pb.TracePacket) -> None:
        """One packet, in the order of the file."""
        assert packet.trusted_packet_sequence_id == 1
        self.unknown += unknown_fields(packet)
        if packet.HasField("track_descriptor"):
            self.track(packet.track_descriptor)
        if packet.HasField("interned_data"):
            self.intern(packet.interned_data)
        if packet.HasField("track_event"):
            self.event(packet.timestamp, packet.track_event)
        if packet.HasField("perf_sample"):
            self.sample(packet.timestamp, packet.perf_sample)

    def track(self, track: pb.TrackDescriptor) -> None:
        """A track: described once, after its parent."""
        assert track.uuid not in self.tracks, f"track {track.uuid} is reported twice"
        assert not track.parent_uuid or track.parent_uuid in self.tracks, f"track {track.uuid} before its parent"
        self.tracks[track.uuid] = track
        if track.HasField("thread"):
            assert track.thread.tid not in self.threads, f"thread {track.thread.tid} has two tracks"
            self.threads[track.thread.tid] = track.thread.thread_name

    def event(self, t_ns: int, event: Event) -> None:
        """A begin, an end, an instant or a value."""
        uuid = event.track_uuid
        assert uuid in self.tracks, f"track {uuid} is used before it is reported"
        if event.type == Event.TYPE_COUNTER:
            track = self.tracks[uuid]
            assert track.HasField("counter") and event.HasField("double_counter_value")
            self.counters[track.name] += 1
        elif event.type == Event.TYPE_INSTANT:
            self.instants.append(event.name)
            self.began.update(event.flow_ids)
            return
        else:
            assert self.last.get(uuid, 0) <= t_ns, f"track {uuid} goes back to {t_ns}"
        self.last[uuid] = t_ns
        if event.type == Event.TYPE_SLICE_BEGIN:
            assert event.name and len(event.categories) == 1
            self.open[uuid].append((t_ns, event.categories[0], event.name))
            self.ended.update(event.terminating_flow_ids)
        elif event.type == Event.TYPE_SLICE_END:
            assert self.open[uuid], f"track {uuid} ends a slice at {t_ns} that did not begin"
            begin, category, name = self.open[uuid].pop()
            self.slices.append((category, name, t_ns - begin))

    def intern(self, data: pb.InternedData) -> None:
        """Strings, mappings, frames, stacks: each once, each after its parts."""
        def say(kind: str, iid: int, value: object) -> None:
            assert iid and iid not in self.reported[kind], f"{kind} {iid} is reported twice"
            self.reported[kind][iid] = value

        for kind in ("function_names", "mapping_paths", "source_paths"):
            for string in getattr(data, kind):
                say(kind, string.iid, string.str.decode())
        for mapping in data.mappings:
            say("mappings", mapping.iid, [self.reported["mapping_paths"][i] for i in mapping.path_string_ids])
        for frame in data.frames:
            path, mapped = self.reported["source_paths"][frame.source_path_iid], self.reported["mappings"][frame.mapping_id]
            assert mapped == [path.removeprefix("/")] and frame.line_number == frame.rel_pc
            say("frames", frame.iid, self.reported["function_names"][frame.function_name_id])
        for stack in data.callstacks:
            say("callstacks", stack.iid, " > ".join(str(self.reported["frames"][i]) for i in stack.frame_ids))

    def sample(self, t_ns: int, sample: pb.PerfSample) -> None:
        """A sample: of a known stack, not earlier than the previous sample."""
        assert sample.callstack_iid in self.reported["callstacks"], f"no stack {sample.callstack_iid}"
        assert t_ns >= self.sampled_ns and sample.timebase_count >= self.weight
        self.sampled_ns, self.weight = t_ns, sample.timebase_count
        self.samples[self.threads[sample.tid]] += 1


def unknown_fields(message: object) -> int:
    """Fields that the official schema does not know, in a message and everything inside of it."""
    count = len(UnknownFieldSet(message))
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if hasattr(value, "add") else [value]:
                count += unknown_fields(inner)
    return count


def main() -> int:
    """Checks the trace named on the command line."""
    trace = pb.Trace()
    trace.ParseFromString(Path(sys.argv[1]).read_bytes())
    first, reader = trace.packet[0], Reader()
    assert first.sequence_flags == pb.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
    clocks = {clock.clock_id: clock.timestamp for clock in first.clock_snapshot.clocks}
    assert clocks[pb.BUILTIN_CLOCK_MONOTONIC] and clocks[pb.BUILTIN_CLOCK_REALTIME]
    assert first.clock_snapshot.primary_trace_clock == pb.BUILTIN_CLOCK_MONOTONIC
    assert first.trace_packet_defaults.timestamp_clock_id == pb.BUILTIN_CLOCK_MONOTONIC
    for packet in trace.packet:
        reader.packet(packet)
    assert not any(reader.open.values()), "slices that do not end"
    assert reader.ended <= reader.began, "flows that end where none began"
    seen = {
        "slices": reader.slices,
        "instants": reader.instants,
        "counters": reader.counters,
        "samples": reader.samples,
        "stacks": list(reader.reported["callstacks"].values()),
        "flows": len(reader.ended),
        "unknown_fields": reader.unknown,
    }
    json.dump(seen, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
