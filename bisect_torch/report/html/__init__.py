"""The page to explore: one HTML file that needs nothing else, no network included."""

from bisect_torch.report.html.page import html

__all__ = ["html"]
