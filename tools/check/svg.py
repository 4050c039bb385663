"""Small pictures of results as SVG text, by the standard library alone: the same rows give the same bytes anywhere."""
import math

WIDTH, HEIGHT, LEFT, RIGHT, TOP = 470, 330, 58, 30, 34


def frame(title, at):
    return [f'<g transform="translate({at[0]},{at[1]})">', f'<text x="{LEFT}" y="20" font-weight="bold">{title}</text>']


def grid(ticks, py, inside):
    out = []
    for tick in ticks:
        if inside(tick):
            out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{py(tick):.1f}" y2="{py(tick):.1f}" stroke="#e5e5e5"/>')
            out.append(f'<text x="{LEFT - 6}" y="{py(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    return out


def legend(names, styles, bars=False):
    """Names below the axis, as many in a line as there is room for. A style is (colour, dashed)."""
    out, x, y = [], LEFT - 20, HEIGHT - 38
    for name in names:
        colour, dashed = styles[name]
        room = 41 + 7 * len(name)  # an estimate: nothing here knows the font
        if x + room > WIDTH:
            x, y = LEFT - 20, y + 18
        if bars and not dashed:
            out.append(f'<rect x="{x + 4}" y="{y - 9}" width="10" height="10" fill="{colour}"/>')
        else:
            dash = ' stroke-dasharray="5 4"' if dashed else ""
            out.append(f'<line x1="{x}" x2="{x + 18}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}" stroke-width="2.4"{dash}/>')
        out.append(f'<text x="{x + 23}" y="{y}">{name}</text>')
        x += room
    return out


def lines(title, series, styles, x_text, ticks, log_y, at):
    """Values over a logarithmic x: series is {name: [(x, y)]}; the first name of `styles` is drawn heavier."""
    xs = sorted({x for points in series.values() for x, _ in points})
    ys = [y for points in series.values() for _, y in points]
    low, high = (math.log(min(ys) / 1.3), math.log(max(ys) * 1.15)) if log_y else (0.0, max(ys) * 1.08)
    w, h = WIDTH - LEFT - RIGHT, HEIGHT - TOP - 78

    def px(x):
        return LEFT + w * (math.log2(x / xs[0]) / max(math.log2(xs[-1] / xs[0]), 1))

    def scaled(y):
        return math.log(y) if log_y else y

    def py(y):
        return TOP + h * (1 - (scaled(y) - low) / (high - low))

    out = frame(title, at) + grid([t for t in ticks if t > 0 or not log_y], py, lambda t: low <= scaled(t) <= high)
    last = None
    for x in xs:
        if last is None or px(x) - last > 8 + 6.4 * len(x_text(x)):
            out.append(f'<text x="{px(x):.1f}" y="{TOP + h + 16}" text-anchor="middle">{x_text(x)}</text>')
            last = px(x)
    names = [name for name in styles if name in series]
    for name in names:
        colour, dashed = styles[name]
        points = sorted(set(series[name]))
        path = " ".join(f"{px(x):.1f},{py(y):.1f}" for x, y in points)
        dash, heavy = ' stroke-dasharray="5 4"' if dashed else "", 2.4 if name == next(iter(styles)) else 1.6
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{heavy}"{dash}/>')
        if not dashed:
            out += [f'<circle cx="{px(x):.1f}" cy="{py(y):.1f}" r="2.6" fill="{colour}"/>' for x, y in points]
    return out + legend(names, styles) + ["</g>"]


def bars(title, groups, styles, ticks, at):
    """Bars side by side: groups is [(label, {name: value})]; names with a dashed style are lines across their group."""
    high = max(value for _, values in groups for value in values.values()) * 1.08
    w, h = WIDTH - LEFT - RIGHT, HEIGHT - TOP - 78
    solid = [name for name in styles if not styles[name][1]]
    out = frame(title, at) + grid(ticks, lambda y: TOP + h * (1 - y / high), lambda t: t <= high)
    for i, (label, values) in enumerate(groups):
        left, space = LEFT + w * i / len(groups), w / len(groups)
        width = space * 0.8 / len(solid)
        for k, name in enumerate(solid):
            if name in values:
                top = TOP + h * (1 - values[name] / high)
                out.append(f'<rect x="{left + space * 0.1 + k * width:.1f}" y="{top:.1f}" width="{width - 1:.1f}" height="{TOP + h - top:.1f}" '
                           f'fill="{styles[name][0]}"/>')
        for name in values:
            if styles[name][1]:
                y = TOP + h * (1 - values[name] / high)
                out.append(f'<line x1="{left + space * 0.05:.1f}" x2="{left + space * 0.95:.1f}" y1="{y:.1f}" y2="{y:.1f}" '
                           f'stroke="{styles[name][0]}" stroke-width="2" stroke-dasharray="5 4"/>')
        out.append(f'<text x="{left + space / 2:.1f}" y="{TOP + h + 16}" text-anchor="middle">{label}</text>')
    names = [name for name in styles if any(name in values for _, values in groups)]
    return out + legend(names, styles, bars=True) + ["</g>"]


def page(panels, note):
    """Panels (functions of a place) in two columns; the note says where it was measured."""
    height = (len(panels) + 1) // 2 * HEIGHT + 24
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * WIDTH}" height="{height}" font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>']
    for i, panel in enumerate(panels):
        out += panel(((i % 2) * WIDTH, (i // 2) * HEIGHT))
    out.append(f'<text x="{LEFT}" y="{height - 10}" font-size="11" fill="#555">{note}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


def size_text(n):
    return f"{n >> 20} MiB" if n >= 1 << 20 else f"{n >> 10} KiB" if n >= 1 << 10 else f"{n} B"
