"""Reads the codes that `qr-matrix draw` writes with zxing-cpp, ZBar and OpenCV, and reports what was not read.

usage: qr-matrix draw | readers.py REPORT

Each picture comes as a line of JSON about it, followed by its pixels, one byte of luma each.
"""

import datetime
import importlib.metadata
import json
import sys
import time

import cv2
import numpy
import zxingcpp
from pyzbar import pyzbar

PADDING = 40
SCALES = (1.0, 0.5, 0.66, 0.8, 1.25, 1.5)


def with_zxing(picture):
    found = zxingcpp.read_barcode(picture, formats=zxingcpp.BarcodeFormat.QRCode)
    return found.text if found and found.valid else None


def with_zbar(picture):
    height, width = picture.shape
    found = pyzbar.decode((picture.tobytes(), width, height), symbols=[pyzbar.ZBarSymbol.QRCODE])
    return found[0].data.decode() if found else None


OPENCV = cv2.QRCodeDetector()


def with_opencv(picture):
    try:
        return OPENCV.detectAndDecode(picture)[0] or None
    except cv2.error:
        # It fails now and then on a picture in which it has found something else.
        return None


def padded(picture, background):
    return cv2.copyMakeBorder(picture, *[PADDING] * 4, cv2.BORDER_CONSTANT, value=background)


def scaled(picture, scale):
    if scale == 1.0:
        return picture
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    return cv2.resize(picture, None, fx=scale, fy=scale, interpolation=how)


def as_it_is_and_again(picture, background):
    """The picture; with background around it; that in other sizes."""
    yield picture
    around = padded(picture, background)
    for scale in SCALES:
        yield scaled(around, scale)


def larger(picture, background):
    """The picture in three sizes with background around it."""
    for scale in (1.0, 1.5, 2.0):
        yield padded(scaled(picture, scale), background)


# Gate, reader, which pictures, how they are shown, percent that must be read.
DEMANDS = [
    ("G1", "zxing-cpp", lambda about: True, as_it_is_and_again, 100),
    ("G1", "ZBar", lambda about: True, as_it_is_and_again, 100),
    ("G1, square frames", "OpenCV", lambda about: about["square"], larger, 99),
    ("G1 as SVG", "zxing-cpp", lambda about: True, as_it_is_and_again, 100),
    ("G1 as SVG", "ZBar", lambda about: True, as_it_is_and_again, 100),
    ("G3", "zxing-cpp", lambda about: True, as_it_is_and_again, 100),
    ("G3", "ZBar", lambda about: True, as_it_is_and_again, 100),
    ("G3, square frames", "OpenCV", lambda about: about["square"], larger, 99),
    ("s = 2", "zxing-cpp", lambda about: True, as_it_is_and_again, 99),
    ("s = 2", "ZBar", lambda about: True, as_it_is_and_again, 99),
    ("dark on light", "zxing-cpp", lambda about: True, as_it_is_and_again, 100),
    ("light on dark", "zxing-cpp", lambda about: True, as_it_is_and_again, 100),
    ("ratio 2 to 3", "zxing-cpp", lambda about: True, as_it_is_and_again, 100),
]
READERS = {"zxing-cpp": with_zxing, "ZBar": with_zbar, "OpenCV": with_opencv}


class Tally:
    def __init__(self):
        self.seen = self.at_once = self.read = 0
        self.seconds = 0.0
        self.misses = []

    def add(self, about, read, views):
        began = time.monotonic()
        self.seen += 1
        found = None
        for attempt, view in enumerate(views):
            found = read(numpy.ascontiguousarray(view))
            if found is not None:
                self.at_once += attempt == 0 and found == about["text"]
                break
        if found == about["text"]:
            self.read += 1
        else:
            what = "not read" if found is None else f"read as {found!r}"
            self.misses.append(f"{about['request']} at {about['width']} px: {what}")
        self.seconds += time.monotonic() - began

    def meets(self, percent):
        return self.seen > 0 and (self.seen - self.read) * 100 <= self.seen * (100 - percent)


def pictures(stream):
    while line := stream.readline():
        about = json.loads(line)
        pixels = stream.read(about["width"] * about["height"])
        yield about, numpy.frombuffer(pixels, numpy.uint8).reshape(about["height"], about["width"])


def versions():
    zbar = ".".join(map(str, zbar_version()))
    names = ("zxing-cpp", "opencv-python-headless")
    return ", ".join([f"{name} {importlib.metadata.version(name)}" for name in names] + [f"ZBar {zbar}"])


def zbar_version():
    import ctypes

    from pyzbar import zbar_library

    library, _ = zbar_library.load()
    numbers = [ctypes.c_uint() for _ in range(3)]
    library.zbar_version(*(ctypes.byref(number) for number in numbers))
    return [number.value for number in numbers]


def report(tallies, minutes):
    yield "# What three more readers make of every code"
    yield ""
    yield f"Written by `tests/qr-matrix` on {datetime.date.today()} with {versions()}, in {minutes:.0f} minutes."
    yield ""
    yield "G1 is every combination of dots, frames, pupils, outline, level, length of the link, size and margin; G3 has"
    yield "each style, level and length with eight logos; s is pixels for each module, 3 and more but where it is said."
    yield "\"At once\" were read from the picture as it is, the others with background around it or at another size."
    yield ""
    yield "| Codes | Reader | Seen | Read | At once | Demand | |"
    yield "|---|---|---|---|---|---|---|"
    for (gate, reader, _, _, percent), tally in zip(DEMANDS, tallies):
        met = "met" if tally.meets(percent) else "**missed**"
        share = f"{tally.read} ({100 * tally.read / max(tally.seen, 1):.2f} %)"
        yield f"| {gate} | {reader} | {tally.seen} | {share} | {tally.at_once} | {percent} % | {met} |"
    yield ""
    if not any(tally.misses for tally in tallies):
        yield "Nothing was missed."
        return
    yield "## What was not read"
    for (gate, reader, _, _, _), tally in zip(DEMANDS, tallies):
        if tally.misses:
            yield ""
            yield f"{gate}, {reader}:"
            yield ""
            yield from (f"- `{miss}`" for miss in tally.misses)


def main():
    (path,) = sys.argv[1:]
    tallies = [Tally() for _ in DEMANDS]
    began = time.monotonic()
    count = 0
    for about, picture in pictures(sys.stdin.buffer):
        count += 1
        for (gate, reader, concerns, views, _), tally in zip(DEMANDS, tallies):
            if gate.removesuffix(", square frames") == about["gate"] and concerns(about):
                tally.add(about, READERS[reader], views(picture, about["background"]))
        if count % 500 == 0:
            missed = sum(len(tally.misses) for tally in tallies)
            print(f"{count} pictures in {time.monotonic() - began:.0f} s, {missed} misses", file=sys.stderr, flush=True)
    lines = list(report(tallies, (time.monotonic() - began) / 60))
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    print("\n".join(lines))
    for (gate, reader, _, _, _), tally in zip(DEMANDS, tallies):
        print(f"{gate}, {reader}: {tally.seconds:.0f} s", file=sys.stderr)
    if not all(tally.meets(demand[-1]) for demand, tally in zip(DEMANDS, tallies)):
        sys.exit("qr-matrix: not every code was read as it must be")


if __name__ == "__main__":
    main()
