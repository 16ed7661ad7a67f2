"""One generation of an index: files that never change after they are published. `writer` writes them, `generation`
searches them, `previous` reads them in the next build. No module imports `crawl`, `read`, `pipeline` or `publish`.
"""
