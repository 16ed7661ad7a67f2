"""The limits of a reader process: seccomp and Landlock in, a process without rights out.

May import nothing of its neighbours."""
