"""Decides by rows and values alone what apply, leader, worker and API ask alike."""
