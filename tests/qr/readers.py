"""Reads the codes that `qr-matrix draw` writes with zxing-cpp, ZBar and OpenCV, and reports what was not read.

usage: qr-matrix draw | readers.py REPORT

Each picture comes as a line of JSON about it, followed by its pixels, one byte of luma each.
"""

import collections
import ctypes
import datetime
import functools
import importlib.metadata
import json
import sys
import time

import cv2
import numpy
import zxingcpp
from pyzbar import wrapper as zbar
from pyzbar import zbar_library

PADDING = 40
SCALES = (1.0, 0.5, 0.66, 0.8, 1.25, 1.5)
MAX_MISSES = 40


# How ZBar tries harder: pixels between the lines that it scans, across and down. It joins the finder lines of neighbouring
# scans, and a round pupil or frame that it misreads at one density it reads at another.
DENSITIES = (1, 2, 3, 4)


def with_zxing(picture):
    found = zxingcpp.read_barcode(picture, formats=zxingcpp.BarcodeFormat.QRCode)
    return found.text if found and found.valid else None


def with_zbar(density):
    def read(picture):
        scanner, image = zbar.zbar_image_scanner_create(), zbar.zbar_image_create()
        try:
            # First of nothing, then of QR codes.
            zbar.zbar_image_scanner_set_config(scanner, zbar.ZBarSymbol.NONE, zbar.ZBarConfig.CFG_ENABLE, 0)
            zbar.zbar_image_scanner_set_config(scanner, zbar.ZBarSymbol.QRCODE, zbar.ZBarConfig.CFG_ENABLE, 1)
            for axis in (zbar.ZBarConfig.CFG_X_DENSITY, zbar.ZBarConfig.CFG_Y_DENSITY):
                zbar.zbar_image_scanner_set_config(scanner, zbar.ZBarSymbol.NONE, axis, density)
            height, width = picture.shape
            pixels = picture.tobytes()
            zbar.zbar_image_set_format(image, int.from_bytes(b"Y800", "little"))
            zbar.zbar_image_set_size(image, width, height)
            zbar.zbar_image_set_data(image, ctypes.cast(pixels, ctypes.c_void_p), len(pixels), None)
            if zbar.zbar_scan_image(scanner, image) <= 0:
                return None
            symbol = zbar.zbar_image_first_symbol(image)
            length = zbar.zbar_symbol_get_data_length(symbol)
            return ctypes.string_at(zbar.zbar_symbol_get_data(symbol), length).decode(errors="replace")
        finally:
            zbar.zbar_image_destroy(image)
            zbar.zbar_image_scanner_destroy(scanner)

    return read


OPENCV = cv2.QRCodeDetector()
# The drawing continues meanwhile.
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
    """Square frames, of which each comes after the plain code it is compared with."""
    return about["plain"] is not None


def small(about):
    return about["version"] < 7


def large(about):
    return about["version"] >= 7


# The demand on OpenCV, which misses plain codes too, more or fewer as the texts are: as many as of plain codes of the same
# texts and sizes.
AS_PLAIN = "plain"

# Gate, part of it, reader (rxing has read already), how it retries, and the percentage that must be read, or AS_PLAIN.
DEMANDS = [
    ("G1", every, "zxing-cpp", as_it_is_and_again, 100),
    ("G1", every, "rxing", None, 100),
    ("G1", every, "ZBar", as_it_is_and_again, 100),
    ("G1", square, "OpenCV", larger, AS_PLAIN),
    ("G1 as SVG", every, "zxing-cpp", as_it_is_and_again, 100),
    ("G1 as SVG", every, "rxing", None, 100),
    ("G1 as SVG", every, "ZBar", as_it_is_and_again, 100),
    ("G3", every, "zxing-cpp", as_it_is_and_again, 100),
    ("G3", every, "rxing", None, 100),
    ("G3", small, "ZBar", as_it_is_and_again, 100),
    ("G3", large, "ZBar", as_it_is_and_again, 90),
    ("G3", square, "OpenCV", larger, AS_PLAIN),
    ("s = 2", every, "zxing-cpp", as_it_is_and_again, 99),
    ("s = 2", every, "rxing", None, 99),
    ("s = 2", every, "ZBar", as_it_is_and_again, 99),
    ("dark on light", every, "zxing-cpp", as_it_is_and_again, 100),
    ("light on dark", every, "zxing-cpp", as_it_is_and_again, 100),
    ("ratio 2 to 3", every, "zxing-cpp", as_it_is_and_again, 100),
]
# Reported by logo.
WITH_HIDDEN_PATTERN = DEMANDS.index(("G3", large, "ZBar", as_it_is_and_again, 90))
PARTS = {every: "", square: ", square frames", small: ", versions 1 to 6", large: ", versions from 7"}
# Each with its default settings first, then the ones that try harder.
READERS = {
    "zxing-cpp": [with_zxing],
    "ZBar": [with_zbar(density) for density in DENSITIES],
    "OpenCV": [with_opencv],
}


def read_in(ways, views, text):
    """Tries each way on each view until something is read: number of tries, the way, and the miss if there is one."""
    tries = 0
    for way, read in enumerate(ways):
        for view in views():
            tries += 1
            content = read(numpy.ascontiguousarray(view))
            if content is not None:
                return tries, way, None if content == text else f"read as {content!r}"
    return tries, way, f"not read in {tries} tries"


class Tally:
    def __init__(self, percent):
        self.percent = percent
        self.seen = self.at_once = self.harder = self.read = self.plain = 0
        self.seconds = 0.0
        self.misses = []
        # Seen and read, by logo.
        self.logos = collections.defaultdict(lambda: [0, 0])

    def add(self, about, ways, views):
        began = time.monotonic()
        tries, way, miss = read_in(ways, views, about["text"])
        if miss is None:
            self.at_once += tries == 1
            self.harder += way > 0
        self.count(about, miss)
        self.seconds += time.monotonic() - began

    def count(self, about, miss):
        self.seen += 1
        self.read += miss is None
        of_logo = self.logos[about["logo"]]
        of_logo[0] += 1
        of_logo[1] += miss is None
        if miss is not None:
            self.misses.append(f"{about['request']} at {about['width']} px: {miss}")
            print(f"missed: {self.misses[-1]}", file=sys.stderr, flush=True)

    def demand(self):
        """How many must be read, in words."""
        return f"as plain codes: {share(self.plain, self.seen)}" if self.percent == AS_PLAIN else f"{self.percent} %"

    def is_met(self):
        if self.percent == AS_PLAIN:
            return self.seen > 0 and self.read >= self.plain
        return self.seen > 0 and (self.seen - self.read) * 100 <= self.seen * (100 - self.percent)


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
    library, _ = zbar_library.load()
    numbers = [ctypes.c_uint() for _ in range(3)]
    library.zbar_version(*(ctypes.byref(number) for number in numbers))
    return [number.value for number in numbers]


def share(read, seen):
    return f"{read} ({100 * read / max(seen, 1):.2f} %)"


def report_logos(tally):
    yield "## ZBar and logos from version 7 on"
    yield ""
    yield f"{tally.seen - tally.read} of {tally.seen} are not read. Up to version 13 the logo hides the alignment pattern in the"
    yield "middle. ZBar looks for it all the same, takes what resembles it most nearby and fits its grid to that: a letter,"
    yield "an edge of the logo, or what is left of the pattern beside a narrow hole. Seven sizes and four densities do not"
    yield "change that, and ZBar has no other setting that would. How often it happens depends on the logo and its hole."
    yield "zxing-cpp and rxing read all of these codes."
    yield ""
    yield "| Logo | Codes | Read |"
    yield "|---|---|---|"
    for logo, (seen, read) in sorted(tally.logos.items()):
        yield f"| {logo} | {seen} | {share(read, seen)} |"
    yield ""


def report(tallies, minutes):
    yield "# QR codes read by four readers"
    yield ""
    yield f"Written by `tests/qr-matrix` on {datetime.date.today()} with {versions()}, in {minutes:.0f} minutes."
    yield ""
    yield "G1 is every combination of dots, frames, pupils, outline, level, length of the link, size and margin. G3 has"
    yield "each style, level and length with eight lettered logos, and with one each of eight striped logos, eight discs,"
    yield "eight like photographs and four empty ones. s is pixels per module, at least 3 unless stated."
    yield "\"At once\" counts codes read from the picture as it is, the others needed background around it or another size."
    yield "\"Harder\" counts codes read only after that: ZBar has scanned every line by then, and goes on with every second,"
    yield "third and fourth. rxing first compares a pixel with its surroundings, then with the whole picture; that is"
    yield "not counted apart. OpenCV misses plain codes too, square dots, frames and pupils in black and white, more or"
    yield "fewer as the texts are: so the demand is as many as it reads of plain codes of the same text, size, level and"
    yield "margin in this run."
    yield ""
    yield "| Gate | Reader | Codes | Read | At once | Harder | Demand | |"
    yield "|---|---|---|---|---|---|---|---|"
    for (gate, part, reader, _, _), tally in zip(DEMANDS, tallies):
        met = "met" if tally.is_met() else "**missed**"
        at_once = "" if reader == "rxing" else tally.at_once
        harder = tally.harder if len(READERS.get(reader, [])) > 1 else ""
        read = share(tally.read, tally.seen)
        yield f"| {gate}{PARTS[part]} | {reader} | {tally.seen} | {read} | {at_once} | {harder} | {tally.demand()} | {met} |"
    yield ""
    yield from report_logos(tallies[WITH_HIDDEN_PATTERN])
    if not any(tally.misses for tally in tallies):
        yield "Nothing was missed."
        return
    yield "## What was not read"
    for (gate, part, reader, _, _), tally in zip(DEMANDS, tallies):
        if tally.misses:
            yield ""
            yield f"{gate}{PARTS[part]}, {reader}: {len(tally.misses)}"
            yield ""
            yield from (f"- `{miss}`" for miss in tally.misses[:MAX_MISSES])
            if len(tally.misses) > MAX_MISSES:
                yield f"- and {len(tally.misses) - MAX_MISSES} more"


def main():
    (path,) = sys.argv[1:]
    tallies = [Tally(demand[-1]) for demand in DEMANDS]
    # Whether OpenCV read each plain code, by its request.
    plain = {}
    began = time.monotonic()
    count = 0
    for about, picture in pictures(sys.stdin.buffer):
        count += 1
        if about["gate"] == "plain":
            views = functools.partial(larger, picture, about["background"])
            plain[about["request"]] = read_in(READERS["OpenCV"], views, about["text"])[-1] is None
        for (gate, part, reader, views, percent), tally in zip(DEMANDS, tallies):
            if gate == about["gate"] and part(about):
                if percent == AS_PLAIN:
                    tally.plain += plain[about["plain"]]
                if reader == "rxing":
                    tally.count(about, about["rxing"])
                else:
                    tally.add(about, READERS[reader], functools.partial(views, picture, about["background"]))
        if count % 500 == 0:
            print(f"{count} pictures in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    lines = list(report(tallies, (time.monotonic() - began) / 60))
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    print("\n".join(lines))
    for (gate, part, reader, _, _), tally in zip(DEMANDS, tallies):
        print(f"{gate}{PARTS[part]}, {reader}: {tally.seconds:.0f} s", file=sys.stderr)
    if not all(tally.is_met() for tally in tallies):
        sys.exit("qr-matrix: a gate is missed")


if __name__ == "__main__":
    main()
