"""Modules that a package of another name brings."""

from __future__ import annotations

DISTRIBUTIONS = {
    "cv2": "opencv-python-headless",
    "PIL": "pillow",
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "yaml": "pyyaml",
    "bs4": "beautifulsoup4",
    "dateutil": "python-dateutil",
    "google": "protobuf",
    "lightning_fabric": "lightning",
    "pkg_resources": "setuptools",
    "pytorch_lightning": "pytorch-lightning",
    "torch_geometric": "torch-geometric",
    "open_clip": "open-clip-torch",
    "flash_attn": "flash-attn",
}
"""Name of the module to the name to install."""
