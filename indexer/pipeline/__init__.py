"""Sources in, a published generation out, with a report: the steps of a build in their order.

May import every room but `stores`."""
