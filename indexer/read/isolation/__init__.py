"""What a reader process may not do: seccomp and Landlock in, a process without rights out.

May import nothing of its neighbours."""
