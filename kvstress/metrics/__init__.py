"""Metrics: what a server's own page says, in canonical words, whatever the engine.

`scrape.Scraper` is what the harness uses; `parse` reads a page, `alias` says what a name means and how its labels
combine, `engines` holds one table per engine, `dialects` picks among them.
"""
