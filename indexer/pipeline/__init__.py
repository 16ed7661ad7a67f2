"""Sources in, a published generation out, with a report: the order of the steps, and who does them.

May import every room but `stores`."""
