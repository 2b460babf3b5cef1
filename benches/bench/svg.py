"""Plots as SVG, written by hand: nothing to install, and the same bytes for the same figures."""

import math
from xml.sax.saxutils import escape

FONT = "font-family='DejaVu Sans, Helvetica, Arial, sans-serif'"
INK, FAINT, PAPER = "#222222", "#d9d9d9", "#ffffff"


class Canvas:
    """A picture being drawn."""

    def __init__(self, width, height):
        self.width, self.height, self.parts = width, height, []

    def add(self, text):
        self.parts.append(text)

    def line(self, x1, y1, x2, y2, colour=INK, width=1.0, dash=""):
        dash = f" stroke-dasharray='{dash}'" if dash else ""
        self.add(f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' stroke='{colour}' stroke-width='{width}'{dash}/>")

    def rect(self, x, y, width, height, colour):
        self.add(f"<rect x='{x:.1f}' y='{y:.1f}' width='{max(0.5, width):.1f}' height='{height:.1f}' fill='{colour}'/>")

    def text(self, x, y, text, size=12, anchor="start", colour=INK, bold=False):
        weight = " font-weight='bold'" if bold else ""
        self.add(f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' text-anchor='{anchor}' fill='{colour}'{weight} {FONT}>{escape(text)}</text>")

    def path(self, points, colour, width=2.0, dash=""):
        steps = " ".join(f"{'M' if i == 0 else 'L'}{x:.1f},{y:.1f}" for i, (x, y) in enumerate(points))
        dash = f" stroke-dasharray='{dash}'" if dash else ""
        self.add(f"<path d='{steps}' fill='none' stroke='{colour}' stroke-width='{width}' stroke-linejoin='round'{dash}/>")

    def dot(self, x, y, colour):
        self.add(f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3' fill='{colour}'/>")

    def done(self):
        head = (f"<svg xmlns='http://www.w3.org/2000/svg' width='{self.width}' height='{self.height:.0f}' "
                f"viewBox='0 0 {self.width} {self.height:.0f}'>")
        return "\n".join([head, f"<rect width='100%' height='100%' fill='{PAPER}'/>", *self.parts, "</svg>", ""])


def short(value):
    """A number as people say it."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g} {unit}"
    return f"{value:.3g}"


def bars(title, unit, panels, note=""):
    """Horizontal bars: a panel for each workload, in it a bar for each system, up to the median, with a whisker from minimum to
    maximum. `panels` is [(name, [(system, rung, colour, (median, min, max), mark)])]; each has its own scale."""
    width, left, right, bar, gap = 900, 224, 160, 18, 6
    height = 56 + sum(34 + len(lines) * (bar + gap) for _, lines in panels) + 20
    c = Canvas(width, height)
    c.text(16, 26, title, 16, bold=True)
    c.text(16, 44, f"{unit}; median, whiskers from minimum to maximum; each workload has its own scale. {note}", 11, colour="#666666")
    y = 62
    for name, lines in panels:
        c.text(16, y + 14, name, 12, bold=True)
        y += 24
        top = max((m[2] for _, _, _, m, _ in lines), default=0) or 1
        scale = (width - left - right) / top
        for system, rung, colour, (middle, low, high), mark in lines:
            c.text(left - 8, y + 13, f"{system}, {rung}", 11, "end")
            c.rect(left, y, middle * scale, bar, colour)
            mid = y + bar / 2
            c.line(left + low * scale, mid, left + high * scale, mid, INK, 1.2)
            for x in (low, high):
                c.line(left + x * scale, mid - 4, left + x * scale, mid + 4, INK, 1.2)
            c.text(left + max(middle, high) * scale + 8, y + 13, short(middle) + (f"  {mark}" if mark else ""), 11)
            y += bar + gap
        y += 10
    return c.done()


class Axes:
    """A frame with two axes, linear or logarithmic."""

    def __init__(self, title, x_label, y_label, x_range, y_range, log_x=False, log_y=False):
        self.c = Canvas(900, 480)
        self.box = (70, 56, 640, 420)
        self.x_range, self.y_range, self.log_x, self.log_y = x_range, y_range, log_x, log_y
        self.c.text(16, 26, title, 16, bold=True)
        self.c.text(16, 46, y_label, 11, colour="#666666")
        left, top, right, bottom = self.box
        self.c.text((left + right) / 2, bottom + 42, x_label, 11, "middle", "#666666")
        self.c.line(left, bottom, right, bottom)
        self.c.line(left, top, left, bottom)
        self.legend_y = top + 8

    def x(self, value):
        return self.box[0] + part(value, self.x_range, self.log_x) * (self.box[2] - self.box[0])

    def y(self, value):
        return self.box[3] - part(value, self.y_range, self.log_y) * (self.box[3] - self.box[1])

    def x_tick(self, value, text):
        x = self.x(value)
        self.c.line(x, self.box[1], x, self.box[3], FAINT)
        self.c.text(x, self.box[3] + 18, text, 11, "middle")

    def y_ticks(self):
        for value in ticks(self.y_range, self.log_y):
            y = self.y(value)
            self.c.line(self.box[0], y, self.box[2], y, FAINT)
            self.c.text(self.box[0] - 8, y + 4, short(value), 11, "end")

    def series(self, name, colour, points, dots=False, dash=""):
        places = [(self.x(x), self.y(y)) for x, y in points]
        self.c.path(places, colour, dash=dash)
        if dots:
            for x, y in places:
                self.c.dot(x, y, colour)
        self.c.line(660, self.legend_y - 4, 684, self.legend_y - 4, colour, 3, dash)
        self.c.text(690, self.legend_y, name, 11)
        self.legend_y += 18


def part(value, limits, log):
    """Where a value lies between two others, from 0 to 1."""
    low, high = limits
    if log:
        value, low, high = (math.log10(max(v, 1e-9)) for v in (value, low, high))
    return min(1.0, max(0.0, (value - low) / (high - low or 1)))


def ticks(limits, log):
    """Round values between two others."""
    low, high = limits
    if log:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        steps = (1, 2, 5) if len(powers) < 4 else (1,)
        return [v for p in powers for m in steps if low * 0.999 <= (v := m * 10.0**p) <= high * 1.001]
    raw = (high - low) / 6 or 1
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw)
    return [step * i for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def around(values, log):
    """A range that holds all values."""
    values = [v for v in values if v is not None and (not log or v > 0)]
    if not values:
        return None
    low, high = min(values), max(values)
    if log:
        return low / 1.3, high * 1.3 if high > low else high * 2
    return 0, high * 1.08 or 1


def percentiles(title, lines):
    """Latency by percentile; the axis stretches towards 100 %, latencies are logarithmic. `lines` is [(name, colour, [[quantile,
    us]])]."""
    nines = [(0.0, "0"), (0.5, "50"), (0.9, "90"), (0.99, "99"), (0.999, "99.9"), (0.9999, "99.99"), (0.99999, "99.999")]
    rest = lambda q: 1 / max(1 - q, 1e-5)
    limits = around([us / 1000 for _, _, curve in lines for q, us in curve if us], True)
    if not limits:
        return None
    a = Axes(title, "percentile of records", "ms, logarithmic", (1, 1e5), limits, True, True)
    a.y_ticks()
    for q, text in nines:
        a.x_tick(rest(q), text)
    for name, colour, curve in lines:
        points = [(rest(q), max(us, 1) / 1000) for q, us in curve if q < 0.999995]
        if points:
            a.series(name, colour, points)
    return a.c.done()


def over_time(title, lines):
    """The latency of each second, p99 and, dashed, the maximum. `lines` is [(name, colour, [(second, p99, max)])] in ms."""
    limits = around([v for _, _, seconds in lines for s in seconds for v in s[1:]], True)
    if not limits:
        return None
    last = max(s[0] for _, _, seconds in lines for s in seconds)
    if last < 3:
        return None
    a = Axes(title, "second of the measurement", "ms, logarithmic; p99, dashed the maximum", (0, max(1, last)), limits, False, True)
    a.y_ticks()
    for value in ticks((0, max(1, last)), False):
        a.x_tick(value, short(value))
    for name, colour, seconds in lines:
        a.series(name, colour, [(s[0], s[1]) for s in seconds], dots=True)
        a.c.path([(a.x(s[0]), a.y(s[2])) for s in seconds], colour, 1.2, "4 3")
    return a.c.done()


def growth(title, x_label, y_label, lines, log_x=False, log_y=False):
    """A figure along something that grows. `lines` is [(name, colour, [(x, y)])]."""
    xs = sorted({x for _, _, points in lines for x, _ in points})
    limits = around([y for _, _, points in lines for _, y in points], log_y)
    if len(xs) < 2 or not limits:
        return None
    x_range = (xs[0], xs[-1]) if log_x else (0, xs[-1])
    a = Axes(title, x_label, y_label, x_range, limits, log_x, log_y)
    a.y_ticks()
    for value in xs:
        a.x_tick(value, short(value))
    for name, colour, points in lines:
        a.series(name, colour, sorted(points), dots=True)
    return a.c.done()
