"""Tests of the service: pure parts by themselves, the rest as a real process with a real (simulated) engine process."""
