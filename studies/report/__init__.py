"""Draws what benches and studies measured: tables, plots, and a verdict for each figure of the papers."""
