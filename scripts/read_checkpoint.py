#!/usr/bin/env python3
"""A linformer checkpoint as numpy arrays: read(path) -> (header, {name: array}).  The format: include/checkpoint.h."""
import json
import sys

import numpy as np

DTYPES = {"F32": "<f4", "F64": "<f8", "U8": "u1"}


def read(path):
    data = np.memmap(path, mode="r", dtype="u1")
    magic, version = data[:8].tobytes(), int.from_bytes(data[8:12].tobytes(), "little")
    if magic != b"LFCKPT\r\n" or version != 1:
        raise ValueError(f"{path}: not a checkpoint of format version 1")
    length = int.from_bytes(data[24:32].tobytes(), "little")
    header = json.loads(data[32 : 32 + length].tobytes())
    start = (32 + length + 63) // 64 * 64
    tensors = {}
    for t in header["tensors"]:
        begin = start + t["offset"]
        tensors[t["name"]] = data[begin : begin + t["bytes"]].view(DTYPES[t["dtype"]]).reshape(t["shape"])
    return header, tensors


if __name__ == "__main__":
    header, tensors = read(sys.argv[1])
    print(header["kind"], "step", header["state"]["step"], *header.get("labels", []))
    for name, x in tensors.items():
        print(f"{name:32} {str(x.dtype):8} {x.shape}")
