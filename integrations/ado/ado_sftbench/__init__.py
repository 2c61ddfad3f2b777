"""ado's actuator SFTTrainer, with the program sftbench."""
