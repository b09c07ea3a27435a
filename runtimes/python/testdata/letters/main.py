"""Texts in many scripts are drawn as letters, with matplotlib's own fonts and with those that seaborn chooses, and nothing is said of missing ones."""

import io
import warnings

warnings.simplefilter("error")

import matplotlib.pyplot as plt
import seaborn


def drawn(text, form):
    figure = plt.figure(figsize=(2, 1))
    figure.text(0, 0.5, text)
    with io.BytesIO() as file:
        figure.savefig(file, format=form)
        plt.close(figure)
        return len(file.getvalue())


texts = ["Größe, ça, żółć", "αβγ Ω", "Жизнь", "中文字符", "日本語かなカナ", "한국어", "🚀 😀 👍🎉"]
for theme in None, "darkgrid":
    if theme:
        seaborn.set_theme(style=theme)
    for form in "png", "svg", "pdf":
        print(form, all(drawn(text, form) > 1000 for text in texts))

# Each letter has a picture of its own: a missing one would be the same box.
pictures = set()
for letter in "中文字日かカ한국🚀😀👍🎉":
    figure = plt.figure(figsize=(0.5, 0.5))
    figure.text(0, 0, letter, size=24)
    figure.canvas.draw()
    pictures.add(bytes(figure.canvas.buffer_rgba()))
    plt.close(figure)
print(len(pictures))
