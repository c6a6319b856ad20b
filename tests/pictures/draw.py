#!/usr/bin/env python3
"""Draws the pictures that tests read (Pillow): draw.py FOLDER. What is damaged, or cannot be drawn, tests make themselves.

turned-N: red, green, blue and white corners (from the left above), stored as EXIF's orientation N shows them upright.
"""
import io, struct, sys, zlib
from PIL import Image, ImageDraw

folder = sys.argv[1]
RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def corners(w=48, h=32):
    image = Image.new("RGB", (w, h), WHITE)
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 0, w // 2 - 1, h // 2 - 1), RED)
    draw.rectangle((w // 2, 0, w - 1, h // 2 - 1), GREEN)
    draw.rectangle((0, h // 2, w // 2 - 1, h - 1), BLUE)
    return image


def chart():
    image = Image.new("RGB", (160, 120), WHITE)
    draw = ImageDraw.Draw(image)
    draw.line((20, 10, 20, 100, 150, 100), (0, 0, 0), 2)
    for i, (high, colour) in enumerate([(30, RED), (70, (0, 128, 0)), (50, BLUE), (85, (200, 120, 0))]):
        draw.rectangle((32 + 30 * i, 100 - high, 50 + 30 * i, 99), colour)
        draw.text((36 + 30 * i, 104), "ABCD"[i], (0, 0, 0))
    return image


def shapes():
    image = Image.new("RGB", (200, 150), (240, 240, 220))
    draw = ImageDraw.Draw(image)
    draw.ellipse((20, 20, 100, 100), (180, 30, 60))
    draw.polygon([(120, 120), (190, 120), (155, 40)], (30, 90, 180))
    draw.text((30, 125), "kentang 12345", (10, 10, 10))
    return image


def save(image, name, **options):
    image.save(f"{folder}/{name}", **options)


BACK = {1: None, 2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_90, 7: Image.Transpose.TRANSVERSE, 8: Image.Transpose.ROTATE_270}
for n, back in BACK.items():
    exif = Image.Exif()
    exif[0x112] = n
    stored = corners().transpose(back) if back is not None else corners()
    save(stored, f"turned-{n}.png", exif=exif) if n in (3, 5) else save(stored, f"turned-{n}.jpg", exif=exif, quality=95, subsampling=0)
save(corners(), "corners.webp", lossless=True)
save(corners().convert("P", palette=Image.Palette.ADAPTIVE, colors=4), "palette.png")
save(corners().convert("L"), "grey.png")
save(corners().convert("L"), "grey.jpg", quality=95)
save(corners().convert("CMYK"), "inks.jpg", quality=95)
save(Image.new("I;16", (8, 8), 0x8040), "grey16.png")
clear = corners().convert("RGBA")
clear.paste((0, 0, 0, 0), (0, 0, 24, 16))
save(clear, "clear.png")
save(corners(), "moving.webp", save_all=True, append_images=[corners().rotate(180)], duration=100)
save(corners(), "moving.png", save_all=True, append_images=[corners().rotate(180)], duration=100)
save(chart(), "chart.png", optimize=True)
save(shapes(), "shapes.jpg", quality=90)
