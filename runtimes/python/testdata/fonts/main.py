"""A font that was read at once draws what one does that is read from its file, which only that one holds open; and it has its name."""

import io
import os

from matplotlib import font_manager, ft2font

path = font_manager.findfont("DejaVu Sans")
images = []
for font in font_manager.get_font(path), ft2font.FT2Font(path, hinting_factor=8):
    font.set_size(12, 100)
    font.set_text("Größe αβγ ∑", 0.0)
    font.draw_glyphs_to_bitmap()
    images.append(font.get_image())
    files = [os.path.realpath(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")]
    print(font.fname == path, files.count(os.path.realpath(path)))
print((images[0] == images[1]).all(), images[0].any(), io.open is open)

import matplotlib.pyplot as plt  # noqa: E402

plt.title("Größe $x^2$")
for form in "pdf", "ps", "svg", "png":
    with io.BytesIO() as file:
        plt.savefig(file, format=form)
        print(form, len(file.getvalue()) > 5000)
plt.close()
