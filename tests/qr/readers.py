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
MOST_MISSES = 40


def with_zxing(picture):
    found = zxingcpp.read_barcode(picture, formats=zxingcpp.BarcodeFormat.QRCode)
    return found.text if found and found.valid else None


def with_zbar(picture):
    height, width = picture.shape
    found = pyzbar.decode((picture.tobytes(), width, height), symbols=[pyzbar.ZBarSymbol.QRCODE])
    return found[0].data.decode(errors="replace") if found else None


OPENCV = cv2.QRCodeDetector()
# The drawing goes on beside it.
cv2.setNumThreads(1)


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


def every(about):
    return True


def square(about):
    return about["square"]


def small(about):
    return about["version"] < 7


def large(about):
    return about["version"] >= 7


# Gate, what of it, reader (rxing has read already), how pictures are shown to it, percent that must be read if that is demanded.
DEMANDS = [
    ("G1", every, "zxing-cpp", as_it_is_and_again, 100),
    ("G1", every, "rxing", None, 100),
    ("G1", every, "ZBar", as_it_is_and_again, 100),
    ("G1", square, "OpenCV", larger, 99),
    ("G1 as SVG", every, "zxing-cpp", as_it_is_and_again, 100),
    ("G1 as SVG", every, "rxing", None, 100),
    ("G1 as SVG", every, "ZBar", as_it_is_and_again, 100),
    ("G3", every, "zxing-cpp", as_it_is_and_again, 100),
    ("G3", every, "rxing", None, 100),
    ("G3", small, "ZBar", as_it_is_and_again, 100),
    ("G3", large, "ZBar", as_it_is_and_again, None),
    ("G3", square, "OpenCV", larger, 99),
    ("s = 2", every, "zxing-cpp", as_it_is_and_again, 99),
    ("s = 2", every, "rxing", None, 99),
    ("s = 2", every, "ZBar", as_it_is_and_again, 99),
    ("dark on light", every, "zxing-cpp", as_it_is_and_again, 100),
    ("light on dark", every, "zxing-cpp", as_it_is_and_again, 100),
    ("ratio 2 to 3", every, "zxing-cpp", as_it_is_and_again, 100),
]
PARTS = {every: "", square: ", square frames", small: ", versions 1 to 6", large: ", versions from 7"}
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
            print(f"missed: {self.misses[-1]}", file=sys.stderr, flush=True)
        self.seconds += time.monotonic() - began

    def note(self, about, why):
        self.seen += 1
        if why is None:
            self.read += 1
        else:
            self.misses.append(f"{about['request']} at {about['width']} px: {why}")
            print(f"missed: {self.misses[-1]}", file=sys.stderr, flush=True)

    def meets(self, percent):
        return self.seen > 0 and (percent is None or (self.seen - self.read) * 100 <= self.seen * (100 - percent))


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
    yield "# What four readers make of every code"
    yield ""
    yield f"Written by `tests/qr-matrix` on {datetime.date.today()} with {versions()}, in {minutes:.0f} minutes."
    yield ""
    yield "G1 is every combination of dots, frames, pupils, outline, level, length of the link, size and margin; G3 has"
    yield "each style, level and length with eight lettered logos and one of eight striped ones. s is pixels for each"
    yield "module, 3 and more but where it is said. \"At once\" were read from the picture as it is, the others with"
    yield "background around it or at another size."
    yield ""
    yield "| Codes | Reader | Seen | Read | At once | Demand | |"
    yield "|---|---|---|---|---|---|---|"
    for (gate, part, reader, _, percent), tally in zip(DEMANDS, tallies):
        share = f"{tally.read} ({100 * tally.read / max(tally.seen, 1):.2f} %)"
        demand = "–" if percent is None else f"{percent} %"
        met = "" if percent is None else "met" if tally.meets(percent) else "**missed**"
        at_once = "" if reader == "rxing" else tally.at_once
        yield f"| {gate}{PARTS[part]} | {reader} | {tally.seen} | {share} | {at_once} | {demand} | {met} |"
    yield ""
    yield "From version 7 on a logo hides an alignment pattern. ZBar looks for it all the same, within two modules, and what"
    yield "it takes for one in a logo bends its grid; whether it does depends on the logo alone. zxing-cpp and rxing are not misled."
    yield ""
    if not any(tally.misses for tally in tallies):
        yield "Nothing was missed."
        return
    yield "## What was not read"
    for (gate, part, reader, _, _), tally in zip(DEMANDS, tallies):
        if tally.misses:
            yield ""
            yield f"{gate}{PARTS[part]}, {reader}: {len(tally.misses)}"
            yield ""
            yield from (f"- `{miss}`" for miss in tally.misses[:MOST_MISSES])
            if len(tally.misses) > MOST_MISSES:
                yield f"- and {len(tally.misses) - MOST_MISSES} more"


def main():
    (path,) = sys.argv[1:]
    tallies = [Tally() for _ in DEMANDS]
    began = time.monotonic()
    count = 0
    for about, picture in pictures(sys.stdin.buffer):
        count += 1
        for (gate, part, reader, views, _), tally in zip(DEMANDS, tallies):
            if gate == about["gate"] and part(about):
                if reader == "rxing":
                    tally.note(about, about["rxing"])
                else:
                    tally.add(about, READERS[reader], views(picture, about["background"]))
        if count % 500 == 0:
            print(f"{count} pictures in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    lines = list(report(tallies, (time.monotonic() - began) / 60))
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    print("\n".join(lines))
    for (gate, part, reader, _, _), tally in zip(DEMANDS, tallies):
        print(f"{gate}{PARTS[part]}, {reader}: {tally.seconds:.0f} s", file=sys.stderr)
    if not all(tally.meets(demand[-1]) for demand, tally in zip(DEMANDS, tallies)):
        sys.exit("qr-matrix: not every code was read as it must be")


if __name__ == "__main__":
    main()
