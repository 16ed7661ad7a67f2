"""Objects of a bucket: its address in, pages out; an object whose ETag is the same as before is not fetched.

May import `crawl` for how answers of HTTP are read, `read`, `generation` for what is known already, and of `stores` the
client of object stores."""
