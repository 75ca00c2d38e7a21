"""Turns a task into something that runs, by its executor: command (exec, shell), python, http.

command starts one process per attempt; python and http are services, processes that stay and take attempts over a
socket (service.py).
"""
