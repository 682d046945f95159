"""Colours of an explanation: orange-red speaks against, green speaks for, none is neither.

Okabe and Ito's vermilion and bluish green, which are apart for every kind of colour vision.
"""

from __future__ import annotations

FOR, AGAINST = (0, 158, 115), (213, 94, 0)
FAINT = 0.1  # a share of the strongest below which a word is left uncoloured


def tint(strength: float) -> str:
    """`#rrggbb` on a white ground for a strength from -1 (against) over 0 (white) to 1 (for)."""
    hue = FOR if strength > 0 else AGAINST
    share = 0.85 * min(abs(strength), 1.0)  # black text stays well readable
    return "#" + "".join(f"{round(255 + share * (part - 255)):02x}" for part in hue)


def terminal_style(strength: float) -> str:
    """The same in a terminal's own red and green, whatever its ground: plain, coloured, or bold too."""
    if abs(strength) < FAINT:
        return ""
    return ("bold " if abs(strength) > 0.5 else "") + ("green" if strength > 0 else "red")
